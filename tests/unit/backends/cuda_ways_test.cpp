// The ways to run a step that are measured, and the choices that stay.
#include "backends/cuda/choose/ways.h"

#include <algorithm>

#include "backends/cuda/choose/framework_products.h"
#include "backends/cuda/choose/quick_tuner.h"
#include "backends/cuda/choose/scratch_tensors.h"
#include "backends/cuda/choose/size_class.h"
#include "backends/pointer_arrays.h"
#include "tests/unit/backends/made_up_family.h"

namespace epifuse::cuda {
namespace {

class StepWays : public StepChoices {
 protected:
  std::string name(int kind) { return candidate_name(prepared_.steps.front(), config(kind)); }
  std::optional<Ways> ways(std::int64_t rows, std::size_t most = 100, bool compiles = true) {
    return ways_on(reference().device, rows, most, compiles);
  }
  std::optional<Ways> ways_on(const targets::DeviceProfile& device, std::int64_t rows,
                              std::size_t most, bool compiles = true) {
    codegen::Bound bound;
    bound.sizes["M"] = rows;
    bound.tensors.resize(prepared_.plan.graph.nodes.size());
    return find_ways(prepared_, 0, late_, bound, device, most, compiles);
  }
};

using Names = std::vector<std::string>;
const std::string kSplit(tune::kProductAndTail);

TEST_F(StepWays, TheUsualOneIsFirstThenTheVendorsThenTheOthersByExpectedTime) {
  EXPECT_EQ(ways(16)->names, (Names{name(kFewRows), kSplit, name(kManyRows), name(kRest)}));
  EXPECT_EQ(ways(1024)->names, (Names{name(kManyRows), kSplit, name(kRest), name(kFewRows)}));
  EXPECT_EQ(describe(prepared_, *ways(16)), "16x4096x4096 bf16 bias");
}

TEST_F(StepWays, OfAllCandidatesAFewAreTakenThatPromiseMost) {
  EXPECT_EQ(ways(16, 2)->names, (Names{name(kFewRows), kSplit, name(kManyRows)}));
  EXPECT_EQ(ways(16, 0)->names, (Names{name(kFewRows), kSplit}));
}

TEST_F(StepWays, WhatIsMeasuredAtTheStartIsWhatIsCompiledAnyway) {
  (void)choose(16);  // what a run would compile too
  const std::int64_t before = jit_->num_compiled();
  const Names first = ways(16, 100, false)->names;
  EXPECT_EQ(jit_->num_compiled(), before);
  EXPECT_EQ(first.front(), name(kFewRows));
  EXPECT_EQ(std::ranges::count(first, name(kRest)) + std::ranges::count(first, kSplit), 0);
  const Names all = ways(16)->names;
  const std::int64_t after = jit_->num_compiled();
  EXPECT_GT(after, before);
  (void)late_.split(prepared_.plan, 0);
  EXPECT_EQ(ways(16, 100, false)->names, all) << "what was compiled since takes part";
}

TEST_F(StepWays, WhatIsNotCompiledTakesNoPlaceOfWhatIs) {
  (void)choose(16);
  (void)choose(1024);
  EXPECT_EQ(ways(1024, 2, false)->names, (Names{name(kManyRows), name(kFewRows)}));
}

TEST(ToMeasure, AsManyCandidatesAreCompiledAsCoresWouldBeIdle) {
  EXPECT_EQ(num_to_measure(Tune::compile, 64, 1), 5u) << "of six the first is compiled anyway";
  EXPECT_EQ(num_to_measure(Tune::compile, 8, 1), 2u);
  EXPECT_EQ(num_to_measure(Tune::first_use, 16, 2), 2u);
  EXPECT_EQ(num_to_measure(Tune::compile, 2, 1), 0u);
  EXPECT_EQ(num_to_measure(Tune::compile, 64, 1000), 0u);
  EXPECT_EQ(num_to_measure(Tune::off, 64, 1), 0u);
  EXPECT_EQ(num_to_measure(Tune::full, 64, 1), 0u);
}

TEST_F(StepWays, TheFirstUseCompilesWhatItMeasures) {
  const targets::DeviceProfile device = reference().device;
  EXPECT_FALSE(quick_rules(Tune::compile, device, late_, 16).compiles);
  const QuickRules first = quick_rules(Tune::first_use, device, late_, 16);
  EXPECT_TRUE(first.compiles);
  EXPECT_EQ(first.most_candidates, 6u);
  EXPECT_EQ(first.budget_us, 50e3);
  const LateKernels never(sm90(), jit_, false);
  EXPECT_FALSE(quick_rules(Tune::first_use, device, never, 16).compiles);
  EXPECT_TRUE(quick_rules(Tune::full, device, never, 16).compiles);
}

TEST_F(StepWays, WithoutAProfileMoreIsMeasuredAsThreadsCompileIt) {
  targets::DeviceProfile device = reference().device;
  device.known = nullptr;
  for (const Tune tune : {Tune::compile, Tune::first_use}) {
    const QuickRules rules = quick_rules(tune, device, late_, 64);
    EXPECT_TRUE(rules.compiles);
    EXPECT_EQ(rules.most_candidates, 16u);
    EXPECT_EQ(rules.budget_us, 150e3);
    EXPECT_EQ(quick_rules(tune, device, late_, 12).most_candidates, 12u);
    EXPECT_EQ(quick_rules(tune, device, late_, 2).most_candidates, 6u);
  }
  EXPECT_GT(quick_rules(Tune::full, device, late_, 2).most_candidates, 1000u);
}

TEST_F(StepWays, WhatIsToBeMeasuredIsCompiledAtOnceWithTheTailAndLeanerKernels) {
  StepKernels greedy = prepared_.steps.front();
  greedy.candidates = {config(kRest), config(kGreedy)};
  const std::int64_t before = jit_->num_compiled();
  late_.compile(prepared_, 0, greedy, greedy.candidates, true);
  EXPECT_EQ(jit_->num_compiled(), before + 4) << "of one two, as it spills, and the tail";
  EXPECT_TRUE(late_.is_split_compiled(prepared_.plan, 0));
  for (const GemmConfig& each : greedy.candidates) {
    EXPECT_NE(late_.candidate(prepared_, 0, greedy, candidate_name(greedy, each)), nullptr);
  }
  EXPECT_EQ(jit_->num_compiled(), before + 4);
}

TEST_F(StepWays, CandidatesFarBehindTheBestAreNotTimed) {
  EXPECT_EQ(ways(4096)->names, (Names{name(kManyRows), kSplit, name(kRest)}));
}

TEST_F(StepWays, OfAllThoseThatTakeFarLongerByAProfileAreNotTimed) {
  targets::DeviceProfile device = reference().device;
  EXPECT_EQ(ways_on(device, 16, kAllWays)->names, (Names{name(kFewRows), kSplit}));
  device.known = nullptr;
  EXPECT_EQ(ways_on(device, 16, kAllWays)->names,
            (Names{name(kFewRows), kSplit, name(kManyRows), name(kRest)}));
}

TEST_F(StepWays, WhereTheModelSplitsTheStepThatIsTheUsualWay) {
  family_.expected_us = [](const plan::FusedGemm&, const GemmConfig& config, const GemmSizes&,
                           const targets::DeviceProfile&) { return 1000.0 + kind(config); };
  EXPECT_EQ(ways(16, 2)->names, (Names{kSplit, name(kFewRows), name(kManyRows)}));
}

TEST_F(StepWays, WhereAFamilyWasNamedItsKernelsAlone) {
  prepared_.is_named = true;
  EXPECT_EQ(ways(16)->names, (Names{name(kFewRows), name(kManyRows), name(kRest)}));
}

TEST_F(StepWays, ThereAreNoneWhereNothingIsToBeChosen) {
  EXPECT_FALSE(ways(0));
  EXPECT_FALSE(ways(7)) << "these tensors cannot be addressed";
}

TEST_F(StepWays, AChoiceOnceKeptStays) {
  const tune::Machine machine{"a device", 13000, ""};
  TunedChoices choices(machine, tune::TuneStore(folder_.path()));
  const tune::Tuned first{name(kRest), "4.0 us measured"}, second{kSplit, "3.0 us measured"};
  const GemmSizes sizes{1, 64, 4096, 4096};
  EXPECT_EQ(choices.keep(prepared_.plan, gemm(), {sizes}, first, "what"), first);
  EXPECT_EQ(choices.keep(prepared_.plan, gemm(), {sizes}, second, "what"), first);
  TunedChoices of_another_process(machine, tune::TuneStore(folder_.path()));
  EXPECT_EQ(of_another_process.keep(prepared_.plan, gemm(), {sizes}, second, "what"), first);
  EXPECT_EQ(of_another_process.find(prepared_.plan, gemm(), {sizes}), first);
  choices.add(prepared_.plan, gemm(), {sizes}, second, "what");
  EXPECT_EQ(choices.find(prepared_.plan, gemm(), {sizes}), second) << "asked for once more";
}

TEST_F(StepWays, AProcessFollowsWhatAnotherKeptFirst) {
  const tune::Machine machine{"a device", 13000, ""};
  const GemmSizes sizes{1, 64, 4096, 4096};
  TunedChoices ours(machine, tune::TuneStore(folder_.path()));
  TunedChoices theirs(machine, tune::TuneStore(folder_.path()));
  EXPECT_FALSE(ours.find(prepared_.plan, gemm(), {sizes}));
  const tune::Tuned first{name(kRest), "4.0 us measured"}, second{kSplit, "3.0 us measured"};
  theirs.keep(prepared_.plan, gemm(), {sizes}, first, "what");
  EXPECT_FALSE(ours.find(prepared_.plan, gemm(), {sizes})) << "it stays what it was";
  EXPECT_EQ(ours.kept(prepared_.plan, gemm(), {sizes}), first);
  EXPECT_EQ(ours.keep(prepared_.plan, gemm(), {sizes}, second, "what"), first);
  EXPECT_EQ(ours.find(prepared_.plan, gemm(), {sizes}), first);
}

TEST_F(StepWays, SizesOfOneClassAndVariantAreThoseThatShareAChoice) {
  const auto class_of = [&](std::int64_t rows) {
    codegen::Bound bound;
    bound.sizes["M"] = rows;
    bound.tensors.resize(prepared_.plan.graph.nodes.size());
    const tune::SizeClass its = size_class(prepared_, bound);
    return its.variant + its.sizes;
  };
  const auto key_of = [&](std::int64_t rows) {
    return tune::tune_key(prepared_.plan, gemm(), choose(rows).form(), {"a device", 13000, ""});
  };
  const std::vector<std::int64_t> all{1, 2, 3, 4, 5, 8, 62, 63, 64, 65, 66, 127, 128, 129, 4097};
  for (const std::int64_t a : all) {
    for (const std::int64_t b : all) {
      EXPECT_EQ(class_of(a) == class_of(b), key_of(a) == key_of(b)) << a << " and " << b;
    }
  }
}

class OddWays : public StepChoices {
 protected:
  OddWays()
      : StepChoices(
            "graph g(x: bf16[M, 100], w: bf16[100, 52], b: bf16[52]) {\n"
            "  h = matmul x, w\n  y = add h, b\n  return y\n}\n") {}
};

std::size_t framework_bytes_at(const Prepared& prepared, std::int64_t rows) {
  const codegen::Bound bound =
      backends::bind_stand_ins(prepared.plan, {{"M", rows}}, DeviceKind::cuda);
  return framework_bytes(prepared, 0, backends::form_of(prepared.plan, bound).bound);
}

TEST_F(StepWays, AFrameworksProductNeedsMemoryForItsResult) {
  EXPECT_EQ(framework_bytes_at(prepared_, 16), 2U * 16 * 4096);
  EXPECT_EQ(framework_bytes_at(prepared_, 0), 0U);
}

TEST_F(OddWays, AndForPaddedOperandsWhereRowsBeginOffSixteenBytes) {
  EXPECT_EQ(framework_bytes_at(prepared_, 16), 2U * (16 * 104 + 104 * 56 + 16 * 56));
}

// Scales are each "NAME: DTYPE SHAPE".
std::size_t framework_bytes_of_eight_bits(const std::vector<std::string>& scales,
                                          const char* type = "e4m3") {
  std::string inputs, ops, last = "h";
  for (const std::string& scale : scales) {
    inputs += ", " + scale;
    const std::string input = scale.substr(0, scale.find(':'));
    ops += fmt::format("  by_{0} = mul {1}, {0}\n", input, last);
    last = "by_" + input;
  }
  const std::string text = fmt::format(
      "graph g(x: {0}[M, 512], w: e4m3[256, 512], r: bf16[M, 256]{1}) {{\n"
      "  h = matmul x, w^T -> f32\n{2}  c = cast {3} -> bf16\n  y = add c, r\n  return y\n}}\n",
      type, inputs, ops, last);
  const Prepared prepared = prepare_uncompiled(plan::make_plan(ir::parse(text), {}),
                                               *targets::find_target("sm_90a"), true);
  return framework_bytes_at(prepared, 32);
}

// In bf16, where scales are of whole tensors or of all rows and columns.
TEST(FrameworkBytes, OfEightBitsAreThoseOfProductsThatTheVendorHas) {
  constexpr std::size_t kResult = 2 * 32 * 256;
  EXPECT_EQ(framework_bytes_of_eight_bits({"s: f32[]"}), kResult);
  EXPECT_EQ(framework_bytes_of_eight_bits({"s: f32[M, 1]", "t: f32[1, 256]"}), kResult);
  EXPECT_EQ(framework_bytes_of_eight_bits({"s: f32[M, 1]", "t: f32[]"}), 0U) << "no such product";
  EXPECT_EQ(framework_bytes_of_eight_bits({"s: f32[]"}, "e5m2"), 0U);
}

// A copy of rows that are looked up, then a product of it.
TEST(FrameworkBytes, AreNoneWhereAStepReadsWhatAnotherLeaves) {
  const Prepared prepared = prepare_uncompiled(
      plan::make_plan(
          ir::parse("graph g(x: bf16[S, 64], rows: i32[M], w: bf16[64, 64], b: bf16[64]) {\n"
                    "  xg = take_rows x, rows\n  h = matmul xg, w^T\n  y = add h, b\n"
                    "  return y\n}\n"),
          {}),
      *targets::find_target("sm_90a"), true);
  ASSERT_EQ(prepared.steps.size(), 2u);
  const codegen::Bound bound =
      backends::bind_stand_ins(prepared.plan, {{"M", 64}, {"S", 8}}, DeviceKind::cuda);
  EXPECT_EQ(framework_bytes(prepared, 1, backends::form_of(prepared.plan, bound).bound), 0u);
}

std::optional<std::size_t> bytes_at(const plan::Plan& plan, std::int64_t rows) {
  const codegen::Bound bound = backends::bind_stand_ins(plan, {{"M", rows}}, DeviceKind::cuda);
  return scratch_bytes(plan, backends::form_of(plan, bound));
}

TEST_F(StepWays, MemoryOfItsOwnIsForAllTensorsOfTheCall) {
  const std::size_t weights = 4096 * 4096 * 2, bias = 4096 * 2, row = 4096 * 2;
  const std::size_t begins = 4 * codegen::kAddressUnit;  // an address may lie off the unit
  EXPECT_EQ(bytes_at(prepared_.plan, 16), weights + bias + 2 * 16 * row + begins);
  EXPECT_EQ(bytes_at(prepared_.plan, 0), weights + bias + begins / 2);
}

}  // namespace
}  // namespace epifuse::cuda
