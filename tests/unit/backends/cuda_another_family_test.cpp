// When kernels of another family than the step's own are offered and run: real ones, on a target
// that several families have kernels for.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "backends/cuda/choose/ways.h"
#include "backends/cuda/run/run_builder.h"
#include "backends/pointer_arrays.h"
#include "ir/text.h"
#include "tests/unit/jit/environment.h"

namespace epifuse::cuda {
namespace {

class AnotherFamily : public ::testing::Test {
 protected:
  codegen::Bound bound(std::int64_t k) const {
    return backends::bind_stand_ins(prepared_.plan, {{"M", 512}, {"K", k}}, DeviceKind::cuda);
  }
  bool is_own(const std::string& way) const {
    return way.starts_with(prepared_.steps.front().family->name);
  }
  // Of the ways to run the step, those by another family.
  std::vector<std::string> others(std::int64_t k, bool compiles = true) {
    std::vector<std::string> names =
        find_ways(prepared_, 0, late_, bound(k), device_, 2, compiles)->names;
    std::erase_if(names, [&](const std::string& name) {
      return is_own(name) || name == tune::kProductAndTail || name == tune::kOperandsFirst;
    });
    return names;
  }

  const targets::TargetInfo& target_ = *targets::find_target("sm_90a");
  const targets::DeviceProfile device_ = targets::reference_profile(target_);
  jit::TemporaryFolder folder_;
  std::shared_ptr<jit::Jit> jit_ = std::make_shared<jit::Jit>(jit::KernelCache(folder_.path()));
  const Prepared prepared_ = prepare_steps(
      plan::make_plan(ir::parse("graph g(x: bf16[M, K], w: bf16[512, K], b: bf16[512]) {\n"
                                "  h = matmul x, w^T\n  y = add h, b\n  return y\n}\n"),
                      {}),
      target_, *jit_);
  LateKernels late_{target_, jit_};
};

TEST_F(AnotherFamily, IsMeasuredOnRowsOffTheBoundariesOfTheStepsOwn) {
  EXPECT_EQ(others(512), std::vector<std::string>());
  EXPECT_EQ(others(514, false), std::vector<std::string>()) << "nothing may be compiled";
  EXPECT_EQ(others(514).size(), 2u);
}

TEST_F(AnotherFamily, RunsWhereItWasMeasuredToBeFaster) {
  const std::string name = others(514).front();
  const ForcedChoice forced{0, name};
  const auto how = [&](std::int64_t k, const ChoiceRules& rules) {
    return plan_of_run(prepared_, late_, rules, bound(k)).how.front();
  };
  EXPECT_TRUE(how(514, {.device = device_, .forced = &forced}).starts_with(name + "; "));
  EXPECT_TRUE(is_own(how(512, {.device = device_, .forced = &forced}))) << "its own best case";
  // Kept under the variant of the step's own family, which a later process asks for.
  const StepChoice usual = choose_step(prepared_, 0, late_, bound(514), {device_});
  TunedChoices tuned({"a device", 13000, ""}, tune::TuneStore(folder_.path()));
  tuned.add(prepared_.plan, std::get<plan::FusedGemm>(prepared_.plan.steps.front()), usual.form(),
            {name, "4.0 us measured"}, "what");
  const StepChoice choice =
      choose_step(prepared_, 0, late_, bound(514), {.device = device_, .tuned = &tuned});
  EXPECT_TRUE(print(choice).starts_with(name));
  EXPECT_EQ(grounds(choice), "4.0 us measured");
  EXPECT_EQ(choice.variant, usual.variant);
}

TEST_F(AnotherFamily, RunsWhereTheDevicesRowSaysThatItIsFaster) {
  targets::MisalignedProducts slower{targets::Rows::k_major, targets::Rows::k_major, 3, 9, 9};
  targets::Measurements measured = *device_.known->measured;
  measured.misaligned = {&slower, 1};
  const targets::KnownDevice row{"a card", &measured};
  targets::DeviceProfile card = device_;
  card.known = &row;
  const auto choose = [&](double another_4, double another_2) {
    slower.another_4 = another_4;
    slower.another_2 = another_2;
    return choose_step(prepared_, 0, late_, bound(514), {card});  // rows start at multiples of 4
  };
  const StepChoice own = choose(0, 1);
  EXPECT_TRUE(is_own(print(own)));
  EXPECT_TRUE(is_own(print(choose(3.1, 1))));
  const StepChoice other = choose(2, 0);
  EXPECT_FALSE(is_own(print(other))) << print(other);
  EXPECT_FALSE(other.why_split);
  const double start = measured.rates.start_us;
  EXPECT_NEAR(own.expected_us - other.expected_us, (own.expected_us - start) / 3, 2);
  EXPECT_EQ(other.variant, own.variant);
  const std::vector<std::string> names = find_ways(prepared_, 0, late_, bound(514), card, 2)->names;
  EXPECT_FALSE(is_own(names.front())) << "what runs comes first";
  EXPECT_EQ(std::ranges::count_if(names, [&](const auto& name) { return is_own(name); }), 2);
}

constexpr const char* kGathered8Bits =
    "graph g(x: e4m3[S, 64], rows: i32[T], w: e4m3[G, 64, 64], s: f32[T, 1], ends: i32[G]) {\n"
    "  xg = take_rows x, rows\n  h = grouped_matmul xg, w^T, ends\n  t = mul h, s\n"
    "  y = cast t -> bf16\n  return y\n}\n";

// The family of a plan's only step by its name, and why others refused; of products on CUDA cores
// it is "".
std::pair<std::string, std::size_t> family_of(const char* text, std::string_view target,
                                              std::string_view name = "") {
  const Prepared prepared = prepare_uncompiled(plan::make_plan(ir::parse(text), {}),
                                               *targets::find_target(target), true, name);
  const StepKernels& step = prepared.steps.front();
  return {step.family == nullptr ? "" : std::string(step.family->name), step.report.why_not.size()};
}

TEST(FamilyOfGroups, IsAnyThatTakesThemWhereTheTargetsOwnDoesNot) {
  const auto refused_once = [](const char* name) { return std::pair(std::string(name), 1ul); };
  EXPECT_EQ(family_of(kGathered8Bits, "sm_90a"), refused_once("sm80"));
  EXPECT_EQ(family_of(kGathered8Bits, "sm_90a", "sm90_dense"), refused_once("")) << "is named";
  EXPECT_EQ(family_of(kGathered8Bits, "sm_80"), refused_once("")) << "has no fp8";
}

// On Hopper its own family would need more tiles than it can number.
TEST(FamilyOfGroups, RunsManyRowsOfManyGroups) {
  const jit::TemporaryFolder folder;
  const auto jit = std::make_shared<jit::Jit>(jit::KernelCache(folder.path()));
  const ir::Graph graph = ir::parse(
      "graph g(x: bf16[T, 64], w: bf16[G, 1024, 64], ends: i32[G]) {\n"
      "  h = grouped_matmul x, w^T, ends\n  y = silu h\n  return y\n}\n");
  for (const char* name : {"sm_90a", "sm_80"}) {
    const targets::TargetInfo& target = *targets::find_target(name);
    const Prepared prepared = prepare_steps(plan::make_plan(graph, {}), target, *jit);
    LateKernels late{target, jit};
    const codegen::Bound bound =
        backends::bind_stand_ins(prepared.plan, {{"T", 8 << 20}, {"G", 256}}, DeviceKind::cuda);
    const StepChoice choice =
        choose_step(prepared, 0, late, bound, {targets::reference_profile(target)});
    ASSERT_FALSE(choice.why_split) << name << ": " << choice.why_split->sentence;
    EXPECT_EQ(choice.kernels->family->name, "sm80") << name;
  }
}

// One product of x with itself, which is not read along K both times.
constexpr const char* kSquare8Bits =
    "graph g(x: {}[64, 64], s: f32[64, 1]) {{\n"
    "  h = matmul x, x\n  t = mul h, s\n  y = cast t -> bf16\n  return y\n}}\n";

TEST(FamilyOfIntegers, IsAnyThatTakesThemSinceTheVendorHasNone) {
  EXPECT_EQ(family_of(fmt::format(fmt::runtime(kSquare8Bits), "i8").c_str(), "sm_90a"),
            std::pair(std::string("sm80"), 1ul));
}

TEST(FamilyOfGroups, IsNoReasonToTakeAProductFromTheVendor) {
  EXPECT_EQ(family_of(fmt::format(fmt::runtime(kSquare8Bits), "e4m3").c_str(), "sm_90a"),
            std::pair(std::string(), 1ul));
}

}  // namespace
}  // namespace epifuse::cuda
