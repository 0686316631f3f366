// What runs a step whose tensors no kernel of its family can address: the kernel behind copies of
// them, or product and tail.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "backends/cuda/choose/ways.h"
#include "backends/pointer_arrays.h"
#include "ir/text.h"
#include "tests/unit/jit/environment.h"

namespace epifuse::cuda {
namespace {

class Choices : public ::testing::Test {
 protected:
  explicit Choices(const char* text)
      : prepared_(prepare_steps(plan::make_plan(ir::parse(text), {}), target_, *jit_)) {}
  codegen::Bound bound(std::int64_t k) const {
    return backends::bind_stand_ins(prepared_.plan, {{"K", k}}, DeviceKind::cuda);
  }
  StepChoice choose(std::int64_t k, TunedChoices* tuned = nullptr) {
    return choose_step(prepared_, 0, late_, bound(k), {.device = device_, .tuned = tuned});
  }
  const plan::FusedGemm& gemm() const {
    return std::get<plan::FusedGemm>(prepared_.plan.steps.front());
  }

  const targets::TargetInfo& target_ = *targets::find_target("sm_90a");
  const targets::DeviceProfile device_ = targets::reference_profile(target_);
  jit::TemporaryFolder folder_;
  std::shared_ptr<jit::Jit> jit_ = std::make_shared<jit::Jit>(jit::KernelCache(folder_.path()));
  const Prepared prepared_;
  LateKernels late_{target_, jit_};
};

// Matrices of 3 x 65 elements, which begin at multiples of 2 bytes.
class CopiedChoice : public Choices {
 protected:
  CopiedChoice()
      : Choices(
            "graph g(x: bf16[12, 3, K], w: bf16[12, 1024, K], b: bf16[1024]) {\n"
            "  h = matmul x, w^T\n  t = add h, b\n  y = silu t\n  return y\n}\n") {}
};

class CopiedGate : public Choices {
 protected:
  CopiedGate()
      : Choices(
            "graph g(x: bf16[2048, K], g: bf16[4096, K], u: bf16[4096, K]) {\n"
            "  h = matmul x, g^T\n  s = silu h\n  t = matmul x, u^T\n  y = mul s, t\n"
            "  return y\n}\n") {}
};

TEST_F(CopiedChoice, IsByTheModelWhereNothingWasMeasured) {
  const StepChoice choice = choose(65);
  EXPECT_TRUE(choice.is_copied);
  EXPECT_TRUE(choice.behind_copies);
  EXPECT_FALSE(choice.why_split);
  EXPECT_FALSE(choose(64).is_copied);
}

TEST_F(CopiedGate, IsWeighedAgainstProductsAndTail) {
  const StepChoice choice = choose(4097);
  EXPECT_TRUE(choice.is_copied);
  ASSERT_TRUE(choice.unfused_us);
  const StepChoice aligned = choose(4096);
  ASSERT_TRUE(aligned.unfused_us);
  EXPECT_GT(*choice.unfused_us, 2 * *aligned.unfused_us) << "on rows off 4 bytes";
  EXPECT_GT(choice.expected_us, aligned.expected_us + 10) << "with three copies";
  EXPECT_FALSE(choice.why_split);
}

// 45.4 us on an H100 (2026-11-26), where product and tail took 73.4.
class OddRows : public Choices {
 protected:
  OddRows()
      : Choices(
            "graph g(x: bf16[170, K], w: bf16[2944, K], b: bf16[2944]) {\n"
            "  h = matmul x, w^T\n  t = add h, b\n  y = gelu_erf t\n  return y\n}\n") {}
};

TEST_F(OddRows, AreCopiedWhereTheVendorWouldReadThemPieceByPiece) {
  const targets::KnownDevice* const h100 = targets::find_device("NVIDIA H100 80GB HBM3");
  ASSERT_NE(h100, nullptr);
  const StepChoice choice =
      choose_step(prepared_, 0, late_, bound(3983), {{h100->measured->limits, {}, h100}});
  EXPECT_FALSE(choice.why_split);
  ASSERT_TRUE(choice.behind_copies);
  EXPECT_LT(choice.expected_us, choice.unfused_us.value_or(0));
}

// 1460 x 10880 x 14459 took 2152 us by threads that move rows and 867 behind copies on an H100
// under another name (2026-11-27).
class LargeOddRows : public Choices {
 protected:
  LargeOddRows()
      : Choices(
            "graph g(x: bf16[1460, K], w: bf16[10880, K], b: bf16[10880]) {\n"
            "  h = matmul x, w^T\n  t = add h, b\n  y = gelu_tanh t\n  return y\n}\n") {}
};

TEST_F(LargeOddRows, AreCopiedOnADeviceThatOnlyItsDriverKnows) {
  targets::DeviceProfile unknown = device_;
  unknown.known = nullptr;
  unknown.driver = {};
  EXPECT_FALSE(choose_step(prepared_, 0, late_, bound(14459), {unknown}).behind_copies)
      << "nothing says how fast its memory is";
  unknown.driver = {.clocks_per_us = 1980, .bytes_per_us = 3.35e6, .l2_bytes = 50e6};
  const StepChoice choice = choose_step(prepared_, 0, late_, bound(14459), {unknown});
  EXPECT_TRUE(choice.behind_copies);
  EXPECT_FALSE(choice.why_split);
  EXPECT_NEAR(choice.expected_us, 867, 0.3 * 867);
  EXPECT_FALSE(choose_step(prepared_, 0, late_, bound(14456), {unknown}).behind_copies);
}

// While a model compiles, what was compiled to be measured on aligned rows is measured behind
// copies.
TEST_F(LargeOddRows, AreMeasuredBehindCopiesByTheKernelsThatAreThere) {
  const StepChoice usual = choose(14459);
  ASSERT_TRUE(usual.behind_copies);
  const auto names_behind_copies = [&] {
    std::vector<std::string> names;
    const auto ways = find_ways(prepared_, 0, late_, bound(14459), device_, 6, false);
    for (const std::string& name : ways->names) {
      const auto kernel = tune::kernel_behind_copies(name);
      if (kernel && !kernel->empty()) names.emplace_back(*kernel);
    }
    std::ranges::sort(names);
    return names;
  };
  EXPECT_TRUE(names_behind_copies().empty()) << "the usual one has no name";
  const StepKernels& aligned = *usual.behind_copies->kernels;
  std::vector<std::string> compiled;
  for (const codegen::GemmConfig& config : aligned.candidates) {
    const bool is_other = config != usual.behind_copies->kernel->config;
    const bool is_near = codegen::print(config).starts_with("cooperative 256x128");
    if (!is_other || !is_near || compiled.size() == 2) continue;
    late_.compile(prepared_, 0, aligned, {&config, 1});
    compiled.push_back(candidate_name(aligned, config));
  }
  ASSERT_EQ(compiled.size(), 2u);
  std::ranges::sort(compiled);
  EXPECT_EQ(names_behind_copies(), compiled);
}

// Its kernels for misaligned rows are what is asked for, whatever the driver says of memory.
TEST_F(LargeOddRows, AreNotCopiedForAFamilyThatWasNamed) {
  targets::DeviceProfile device = device_;
  device.driver = {.clocks_per_us = 1980, .bytes_per_us = 3.35e6, .l2_bytes = 50e6};
  const Prepared named = prepare_steps(prepared_.plan, target_, *jit_, true, device, "sm90_dense");
  LateKernels late(target_, jit_, true, device, "sm90_dense");
  const codegen::Bound odd = backends::bind_stand_ins(named.plan, {{"K", 14459}}, DeviceKind::cuda);
  const StepChoice choice = choose_step(named, 0, late, odd, {device});
  EXPECT_FALSE(choice.behind_copies);
  EXPECT_FALSE(choice.why_split);
}

TEST_F(CopiedChoice, FollowsWhatWasMeasuredOnSuchTensorsOnly) {
  TunedChoices tuned({"a device", 13000, ""}, tune::TuneStore(folder_.path()));
  const tune::StepForm form = choose(65).form();
  tuned.add(prepared_.plan, gemm(), form, {std::string(tune::kProductAndTail), "3.0 us measured"},
            "what");
  const StepChoice choice = choose(65, &tuned);
  ASSERT_TRUE(choice.why_split);
  EXPECT_EQ(choice.why_split->code, "measured_slower");
  EXPECT_FALSE(choice.behind_copies);

  tuned.add(prepared_.plan, gemm(), form, {std::string(tune::kOperandsFirst), "2.0 us measured"},
            "what");
  const StepChoice copied = choose(65, &tuned);
  EXPECT_FALSE(copied.why_split);
  EXPECT_TRUE(copied.behind_copies);
  EXPECT_EQ(grounds(copied), "2.0 us measured");

  tune::StepForm addressable = form;
  addressable.is_copied = false;
  EXPECT_FALSE(tuned.find(prepared_.plan, gemm(), addressable)) << "of other tensors";
}

TEST_F(CopiedChoice, TheWaysAreBoth) {
  const auto ways = find_ways(prepared_, 0, late_, bound(65), device_, 2);
  ASSERT_TRUE(ways);
  std::vector<std::string> names = ways->names;
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{std::string(tune::kOperandsFirst),
                                             std::string(tune::kProductAndTail)}));
}

TEST_F(CopiedChoice, WhereManyWaysAreAskedForOtherKernelsRunBehindCopiesToo) {
  const auto ways = find_ways(prepared_, 0, late_, bound(65), device_, 8);
  ASSERT_TRUE(ways);
  ASSERT_EQ(ways->names.size(), 3u);
  const std::string& named = ways->names[2];
  const auto kernel = tune::kernel_behind_copies(named);
  ASSERT_TRUE(kernel) << named;
  const StepChoice usual = choose(65);
  const std::string by_model =
      candidate_name(*usual.behind_copies->kernels, usual.behind_copies->kernel->config);
  EXPECT_NE(*kernel, by_model);

  TunedChoices tuned({"a device", 13000, ""}, tune::TuneStore(folder_.path()));
  tuned.add(prepared_.plan, gemm(), usual.form(), {named, "2.0 us measured"}, "what");
  const StepChoice choice = choose(65, &tuned);
  ASSERT_TRUE(choice.behind_copies);
  EXPECT_EQ(candidate_name(*choice.behind_copies->kernels, choice.behind_copies->kernel->config),
            *kernel);
  const std::string gone = tune::operands_first("no kernel of this name");
  tuned.add(prepared_.plan, gemm(), usual.form(), {gone, "1.0 us measured"}, "what");
  const StepChoice without = choose(65, &tuned);
  ASSERT_TRUE(without.behind_copies) << "by the model";
  EXPECT_EQ(grounds(without), grounds(usual));
}

}  // namespace
}  // namespace epifuse::cuda
