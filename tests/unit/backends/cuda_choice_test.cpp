// Which kernel runs a fused step on certain tensors, and when none does.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/cuda/choose/step_choice.h"
#include "backends/cuda/run/pointer_arrays.h"
#include "backends/cuda/run/run_builder.h"
#include "backends/pointer_arrays.h"
#include "tests/unit/backends/made_up_family.h"
#include "tune/unfused.h"

namespace epifuse::cuda {
namespace {

class BareChoices : public StepChoices {
 protected:
  BareChoices()
      : StepChoices(
            "graph g(x: bf16[M, 4096], w: bf16[4096, 4096]) {\n"
            "  y = matmul x, w^T\n  return y\n}\n") {}
};

TEST_F(BareChoices, OursRunsWhereItWasMeasuredToBeFasterThanTheVendors) {
  EXPECT_EQ(chosen(4096), kManyRows);
  EXPECT_FALSE(choose(4096).why_split);
  EXPECT_EQ(grounds(choose(4096)),
            "nothing is fused into it, and by measurements at such sizes ours takes 0.99 of the "
            "vendor's time");
  for (const std::int64_t rows : {100, 512, 1 << 20}) {  // far off, measured, far off
    ASSERT_TRUE(choose(rows).why_split) << rows;
    EXPECT_EQ(choose(rows).why_split->code, "bare_product");
  }
  EXPECT_EQ(grounds(choose(512)),
            "nothing is fused into it, and by measurements at such sizes ours takes 1.02 of the "
            "vendor's time");
  EXPECT_EQ(grounds(choose(100)), "nothing is fused into it");
}

TEST_F(BareChoices, NoVariantIsCompiledForThem) {
  const StepChoice odd = choose(4097);
  ASSERT_TRUE(odd.why_split);
  EXPECT_EQ(odd.why_split->code, "bare_product");
  EXPECT_EQ(odd.kernels, &prepared_.steps.front());
}

TEST_F(BareChoices, ForcedOnesRun) {
  const ForcedChoice forced{0, candidate_name(prepared_.steps.front(), config(kRest))};
  EXPECT_EQ(chosen(16, {.forced = &forced}), kRest);
  const ForcedChoice split{0, std::string(tune::kProductAndTail)};
  EXPECT_TRUE(choose(4096, {.forced = &split}).why_split);
}

TEST_F(StepChoices, ACandidateThatDoesNotCompileMakesRoomForTheNextBest) {
  const StepKernels& step = prepared_.steps.front();
  EXPECT_EQ(step.candidates.size(), 3u);
  ASSERT_EQ(step.report.why_not.size(), 1u);
  EXPECT_EQ(step.report.why_not[0].code, "candidate_dropped");
  std::vector<int> compiled;
  for (const Kernel& kernel : step.kernels) compiled.push_back(kind(kernel.config));
  EXPECT_EQ(compiled.size(), 1u);  // one beside the dropped one, of a variant's shortlist
  EXPECT_NE(compiled.front(), kRest);
}

TEST_F(StepChoices, ACandidateThatTakesTooMuchGetsFewerColumnsAtOnce) {
  StepKernels step;
  step.kind = StepKind::family;
  step.family = &family_;
  step.candidates = {config(kGreedy)};
  step.sizes = tune::typical_sizes(gemm().gemm);
  const StepKernels compiled =
      prepare_variant(prepared_.plan, gemm(), step, {}, {1, 1, 1, 1}, sm90(), *jit_);
  ASSERT_EQ(compiled.kernels.size(), 1u);
  EXPECT_TRUE(compiled.kernels[0].config.as<MadeUpConfig>().is_lean);
  EXPECT_EQ(compiled.candidates, std::vector{compiled.kernels[0].config});
  EXPECT_TRUE(compiled.report.why_not.empty());
}

TEST_F(StepChoices, ALateCandidateIsTheLeanestOneThatIsNeeded) {
  StepKernels step = prepared_.steps.front();
  step.kernels.clear();
  step.candidates = {config(kGreedy), config(kBroken)};
  const auto late = [&](int kind) {
    return late_.candidate(prepared_, 0, step, candidate_name(step, config(kind)));
  };
  ASSERT_NE(late(kGreedy), nullptr);
  EXPECT_TRUE(late(kGreedy)->config.as<MadeUpConfig>().is_lean);
  EXPECT_EQ(late(kGreedy), late(kGreedy));  // compiled once
  EXPECT_EQ(late(kBroken), nullptr);
}

TEST_F(StepChoices, TheLeastExpectedTimeAmongTheCompiledOnesRuns) {
  Prepared& all = prepared_;
  for (int each : {kFewRows, kManyRows}) {
    all.steps[0].kernels.push_back({config(each), {}, nullptr});
  }
  EXPECT_EQ(chosen(16), kFewRows);
  EXPECT_EQ(chosen(4096), kManyRows);
  EXPECT_EQ(grounds(choose(4096)).substr(0, 16), "6.0 us expected,");
  EXPECT_EQ(print(choose(4096)).substr(0, 9), "made_up, ");
}

TEST_F(StepChoices, AClearlyBetterCandidateIsCompiledWhenItsSizesCome) {
  const int compiled = kind(prepared_.steps[0].kernels.front().config);
  const int other = compiled == kFewRows ? kManyRows : kFewRows;
  const StepChoice choice = choose(other == kFewRows ? 16 : 4096);
  ASSERT_NE(choice.kernel, nullptr);
  EXPECT_EQ(kind(choice.kernel->config), other);
  EXPECT_TRUE(choice.kernel->binary->problems.empty());
  EXPECT_EQ(choose(other == kFewRows ? 16 : 4096).kernel, choice.kernel);  // once
  EXPECT_EQ(prepared_.steps[0].kernels.size(), 1u);
}

TEST_F(StepChoices, NothingIsWeighedAgainstANamedFamily) {
  family_.expected_us = [](const auto&...) { return 1e6; };
  ASSERT_TRUE(choose(4096).why_split);
  prepared_.is_named = true;
  EXPECT_FALSE(choose(4096).why_split);
  EXPECT_FALSE(choose(4096).unfused_us);
}

TEST_F(StepChoices, NothingIsCompiledForSizesWhereThatIsNotWanted) {
  LateKernels late(sm90(), jit_, false);
  const Kernel* compiled = &prepared_.steps[0].kernels.front();
  for (const std::int64_t rows : {16, 4096}) {
    codegen::Bound bound;
    bound.sizes["M"] = rows;
    bound.tensors.resize(prepared_.plan.graph.nodes.size());
    EXPECT_EQ(choose_step(prepared_, 0, late, bound, reference()).kernel, compiled);
  }
}

TEST_F(StepChoices, WithoutACompilerWhatIsThereRuns) {
  const jit::ScopedVariable hidden("EPIFUSE_NVRTC", "/nowhere/libnvrtc.so");
  // Its cache has the toolchain's record, and the kernels that were compiled ahead.
  const auto no_compiler = std::make_shared<jit::Jit>(jit::KernelCache(folder_.path()));
  LateKernels late(sm90(), no_compiler);
  const Kernel* compiled = &prepared_.steps[0].kernels.front();
  for (const std::int64_t rows : {16, 4096}) {
    codegen::Bound bound;
    bound.sizes["M"] = rows;
    bound.tensors.resize(prepared_.plan.graph.nodes.size());
    EXPECT_EQ(choose_step(prepared_, 0, late, bound, reference()).kernel, compiled);
  }
}

TEST_F(StepChoices, SizesThatCameBeforeAreNotWeighedAgain) {
  static int num_weighed = 0;
  family_.expected_us = [](const plan::FusedGemm&, const GemmConfig& config, const GemmSizes&,
                           const targets::DeviceProfile&) {
    ++num_weighed;
    return static_cast<double>(kind(config));
  };
  const StepChoice first = choose(16);
  const int before = num_weighed;
  EXPECT_GT(before, 0);
  const StepChoice second = choose(16);
  EXPECT_EQ(second.kernel, first.kernel);
  EXPECT_EQ(second.expected_us, first.expected_us);
  EXPECT_EQ(num_weighed, before);
  ChoiceRules smaller = reference();
  smaller.device.limits.num_sms = 1;
  choose(16, smaller);
  EXPECT_GT(num_weighed, before);  // another device
}

TEST_F(StepChoices, TensorsThatCannotBeAddressedAreSplit) {
  const StepChoice choice = choose(7);
  EXPECT_EQ(choice.kernel, nullptr);
  ASSERT_TRUE(choice.why_split);
  EXPECT_EQ(choice.why_split->code, "seven");
}

TEST_F(StepChoices, AVariantIsCompiledOnceAndServesOtherSizes) {
  const StepChoice first = choose(17);
  ASSERT_NE(first.kernel, nullptr);
  EXPECT_TRUE(first.kernels->variant.as<MadeUpVariant>().is_odd);
  EXPECT_NE(first.kernel->source.text.find("101;"), std::string::npos);
  EXPECT_TRUE(first.kernel->binary->problems.empty());
  EXPECT_EQ(choose(19).kernel, first.kernel);
  EXPECT_NE(print(first).find("; odd rows"), std::string::npos);
  EXPECT_EQ(choose(18).kernels, &prepared_.steps.front());
}

TEST_F(StepChoices, NoRowsAreNoWork) {
  const StepChoice choice = choose(0);
  EXPECT_FALSE(choice.why_split);
  EXPECT_EQ(choice.expected_us, 0);
  EXPECT_EQ(grounds(choice), "");
}

TEST_F(StepChoices, AStepThatFusionWouldSlowDownIsSplitWithBothTimes) {
  family_.expected_us = [](const plan::FusedGemm&, const GemmConfig&, const GemmSizes&,
                           const targets::DeviceProfile&) { return 1000.0; };
  const StepChoice slow = choose(16);
  ASSERT_TRUE(slow.why_split);
  EXPECT_EQ(slow.why_split->code, "slower_than_unfused");
  EXPECT_NE(slow.why_split->sentence.find("1000.0 us"), std::string::npos);
  const double unfused_us =
      tune::unfused_us(gemm(), {1, 16, 4096, 4096}, reference().device).value();
  EXPECT_NE(slow.why_split->sentence.find(fmt::format("product and a tail {:.1f} us", unfused_us)),
            std::string::npos)
      << slow.why_split->sentence;
  // Where nothing is known of the vendor's time, the step stays fused.
  EXPECT_FALSE(choose(1 << 20).why_split);
}

TEST_F(StepChoices, OnAnUnknownDeviceNoTimesOfAnotherOneSplitAStep) {
  family_.expected_us = [](const plan::FusedGemm&, const GemmConfig&, const GemmSizes&,
                           const targets::DeviceProfile&) { return 1000.0; };
  ChoiceRules unknown = reference();
  unknown.device.known = nullptr;
  EXPECT_TRUE(choose(16).why_split);
  const StepChoice choice = choose(16, unknown);
  EXPECT_FALSE(choice.why_split);
  EXPECT_EQ(grounds(choice), "1000.0 us expected");
}

TEST_F(BareChoices, OnAnUnknownDeviceTheVendorsRunAsNothingWasMeasured) {
  ChoiceRules unknown = reference();
  unknown.device.known = nullptr;
  const StepChoice choice = choose(4096, unknown);
  ASSERT_TRUE(choice.why_split);
  EXPECT_EQ(choice.why_split->sentence,
            "nothing is fused into the product, and no measurement on this device says that ours "
            "is faster than the vendor's GEMM.");
  EXPECT_EQ(grounds(choice), "nothing is fused into it");
}

TEST_F(StepChoices, AForcedChoiceRunsWhateverTheModelSays) {
  const StepKernels& step = prepared_.steps.front();
  for (int each : {kFewRows, kManyRows, kRest}) {
    const ForcedChoice forced{0, candidate_name(step, config(each))};
    EXPECT_EQ(chosen(16, {.forced = &forced}), each);
    EXPECT_EQ(choose(16, {.forced = &forced}).measured, "being measured");
  }
  const ForcedChoice split{0, std::string(tune::kProductAndTail)};
  ASSERT_TRUE(choose(16, {.forced = &split}).why_split);
  const ForcedChoice of_another_step{1, std::string(tune::kProductAndTail)};
  EXPECT_FALSE(choose(16, {.forced = &of_another_step}).why_split);
  const ForcedChoice unknown{0, "made_up, dropped long ago"};
  EXPECT_NE(choose(16, {.forced = &unknown}).kernel, nullptr);
}

TEST_F(StepChoices, AMeasuredChoiceHoldsForItsSizesAndInLaterProcesses) {
  const tune::Machine machine{"NVIDIA H200", 13000, ""};
  const std::string rest = candidate_name(prepared_.steps.front(), config(kRest));
  TunedChoices choices(machine, tune::TuneStore(folder_.path()));
  const ChoiceRules rules{.tuned = &choices};
  EXPECT_NE(chosen(64, rules), kRest);
  choices.add(prepared_.plan, gemm(), {{1, 64, 4096, 4096}}, {rest, "4.0 us measured"}, "what");
  choices.add(prepared_.plan, gemm(), {{1, 32, 4096, 4096}},
              {std::string(tune::kProductAndTail), "5.0 us measured"}, "what");
  for (int process = 0; process < 2; ++process) {
    TunedChoices later(machine, tune::TuneStore(folder_.path()));
    const ChoiceRules follow{.tuned = process == 0 ? &choices : &later};
    EXPECT_EQ(chosen(64, follow), kRest);
    EXPECT_EQ(grounds(choose(64, follow)), "4.0 us measured");
    EXPECT_NE(chosen(66, follow), kRest);
    ASSERT_TRUE(choose(32, follow).why_split);
    EXPECT_EQ(choose(32, follow).why_split->code, "measured_slower");
  }
  TunedChoices other_device({"NVIDIA H100", 13000, ""}, tune::TuneStore(folder_.path()));
  EXPECT_NE(chosen(64, {.tuned = &other_device}), kRest);
}

TEST_F(StepChoices, WhatAFrameworkRunsFasterIsSaidAndRunsAllTheSame) {
  TunedChoices choices({"NVIDIA H200", 13000, ""}, tune::TuneStore(folder_.path()));
  const std::string rest = candidate_name(prepared_.steps.front(), config(kRest));
  choices.add(prepared_.plan, gemm(), {{1, 64, 4096, 4096}}, {rest, "25.0 us measured", 25, 16.3},
              "what");
  choices.add(prepared_.plan, gemm(), {{1, 32, 4096, 4096}}, {rest, "23.0 us measured", 23, 26},
              "what");
  const ChoiceRules rules{.tuned = &choices};
  EXPECT_EQ(chosen(64, rules), kRest);
  const auto why = choose(64, rules).why_left;
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, "framework_is_faster");
  EXPECT_EQ(
      why->sentence,
      "All there is to fuse is a bias, which the vendor's product adds too: 16.3 us as measured, "
      "the best kernel 25.0 us.");
  EXPECT_FALSE(choose(32, rules).why_left);
}

TEST_F(StepChoices, ProductAndTailAreLeftToAFrameworkUnlessMeasuredAhead) {
  TunedChoices choices({"NVIDIA H200", 13000, ""}, tune::TuneStore(folder_.path()));
  const std::string split(tune::kProductAndTail);
  const auto add = [&](std::int64_t m, double us, double framework_us) {
    choices.add(prepared_.plan, gemm(), {{1, m, 4096, 4096}}, {split, "m", us, framework_us},
                "what");
  };
  add(16, 30, 30.2);
  add(32, 26, 30);
  add(64, 16, 15.5);
  const ChoiceRules rules{.tuned = &choices};
  EXPECT_TRUE(choose(16, rules).why_left) << "as fast";
  EXPECT_FALSE(choose(32, rules).why_left) << "13 % ahead";
  EXPECT_TRUE(choose(64, rules).why_left) << "short ones, too: a framework launches no more";
  choices.add(prepared_.plan, gemm(), {{1, 48, 4096, 4096}}, {split, "m", 30, 35, 25}, "what");
  const auto padded = choose(48, rules).why_left;
  ASSERT_TRUE(padded);
  EXPECT_EQ(padded->code, "framework_is_faster_padded");
}

TEST_F(StepChoices, AMeasuredChoiceHoldsForTheFamilyThatWasNamed) {
  const tune::TuneStore store(folder_.path());
  TunedChoices usual({"NVIDIA H200", 13000, ""}, store);
  TunedChoices named({"NVIDIA H200", 13000, "", "made_up"}, store);
  const std::string rest = candidate_name(prepared_.steps.front(), config(kRest));
  prepared_.is_named = true;
  named.add(prepared_.plan, gemm(), {{1, 64, 4096, 4096}}, {rest, "4.0 us measured"}, "what");
  EXPECT_EQ(chosen(64, {.tuned = &named}), kRest);
  prepared_.is_named = false;
  EXPECT_NE(chosen(64, {.tuned = &usual}), kRest);
}

TEST_F(StepChoices, ProblemsRunOneByOneWhereTheFamilyHasNoKernelsForThem) {
  const PointerArrayRunner problems(prepared_, sm90(), jit_);
  ASSERT_TRUE(problems.why_not());
  EXPECT_EQ(problems.why_not()->code, "no_pointer_array_kernels");
  EXPECT_EQ(problems.why_not()->sentence, "made_up has no kernels for many problems.");
  EXPECT_TRUE(problems.sources().empty());
}

}  // namespace
}  // namespace epifuse::cuda
