// A family made up for tests of choices: its kernels compile in no time and stand for real ones.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "backends/cuda/choose/step_choice.h"
#include "ir/text.h"
#include "tests/unit/jit/environment.h"
#include "tune/shortlist.h"

namespace epifuse::cuda {

using codegen::GemmConfig;
using codegen::GemmSizes;
using codegen::GemmVariant;

constexpr int kFewRows = 1, kManyRows = 2, kBroken = 3, kRest = 4, kGreedy = 5;  // as kind

struct MadeUpConfig {
  int kind = 0;
  bool is_lean = false;
  bool operator==(const MadeUpConfig&) const = default;
};
inline std::string print(const MadeUpConfig& config) { return fmt::format("kind {}", config.kind); }
inline std::optional<MadeUpConfig> leaner(const MadeUpConfig& config) {
  if (config.is_lean) return std::nullopt;
  return MadeUpConfig{config.kind, true};
}

struct MadeUpVariant {
  bool is_odd = false;
  bool operator==(const MadeUpVariant&) const = default;
};
inline std::string print(const MadeUpVariant& variant) { return variant.is_odd ? "odd rows" : ""; }
inline std::string key(const MadeUpVariant& variant) { return print(variant); }

inline GemmConfig config(int kind) { return GemmConfig(MadeUpConfig{kind}); }
inline int kind(const GemmConfig& config) { return config.as<MadeUpConfig>().kind; }

// The broken one promises most.
inline double expected_us(const plan::FusedGemm&, const GemmConfig& config, const GemmSizes& sizes,
                          const targets::DeviceProfile&) {
  switch (kind(config)) {
    case kFewRows: return 2 + 0.01 * static_cast<double>(sizes.m);
    case kManyRows: return 6;
    case kBroken: return 1;
    default: return 9;
  }
}

inline codegen::KernelSource source(const plan::Plan&, const plan::FusedGemm&,
                                    const GemmConfig& config, const GemmVariant& variant,
                                    const targets::TargetInfo&) {
  const auto [kind, is_lean] = config.as<MadeUpConfig>();
  const bool is_broken = kind == kBroken || (kind == kGreedy && !is_lean);
  const std::string body = is_broken ? "#error broken" : "";
  return {"k",
          "extern \"C\" __global__ void k(int* x) {\n" + body +
              "\n*x = " + std::to_string(100 * kind + (variant.is_empty() ? 0 : 1)) + ";\n}\n",
          "sm_90a"};
}

// Tensors of 7 rows cannot be addressed; odd numbers of rows ask for another variant.
inline std::optional<plan::WhyNot> why_not_bound(const plan::Plan&, const plan::FusedGemm&,
                                                 const codegen::Bound& bound) {
  if (bound.sizes.at("M") == 7) return plan::WhyNot{"seven", "there are seven rows."};
  return std::nullopt;
}
inline GemmVariant variant(const plan::Plan&, const plan::FusedGemm&, const codegen::Bound& bound) {
  return codegen::make_variant(MadeUpVariant{bound.sizes.at("M") % 2 != 0});
}

inline std::optional<GemmConfig> fitted(const plan::FusedGemm&, const GemmConfig& config,
                                        const GemmVariant&, const targets::TargetInfo&) {
  return config;
}

inline codegen::KernelFamily make_family() {
  codegen::KernelFamily family{};
  family.name = "made_up";
  family.expected_us = expected_us;
  family.source = source;
  family.why_not_bound = why_not_bound;
  family.variant = variant;
  family.fitted = fitted;
  family.roles = [](const GemmVariant&) { return codegen::OperandRoles{}; };
  return family;
}

class StepChoices : public ::testing::Test {
 protected:
  explicit StepChoices(std::string_view text =
                           "graph g(x: bf16[M, 4096], w: bf16[4096, 4096], b: bf16[4096]) {\n"
                           "  h = matmul x, w^T\n  y = add h, b\n  return y\n}\n") {
    prepared_.plan = plan::make_plan(ir::parse(text), {});
    StepKernels step;
    step.kind = StepKind::family;
    step.family = &family_;
    for (int i : {kFewRows, kManyRows, kBroken, kRest}) step.candidates.push_back(config(i));
    step.sizes = tune::typical_sizes(gemm().gemm);
    step.most_kernels = 4;
    // As the usual kernels are made, of a family that no table lists.
    prepared_.steps.push_back(
        prepare_variant(prepared_.plan, gemm(), step, {}, {1, 1, 1, 1}, sm90(), *jit_));
  }

  static const targets::TargetInfo& sm90() { return *targets::find_target("sm_90a"); }
  static ChoiceRules reference() { return {targets::reference_profile(sm90())}; }
  const plan::FusedGemm& gemm() const {
    return std::get<plan::FusedGemm>(prepared_.plan.steps.front());
  }
  // On the reference device unless the rules name another.
  StepChoice choose(std::int64_t rows, ChoiceRules rules = {}) {
    if (rules.device.limits.num_sms == 0) rules.device = reference().device;
    codegen::Bound bound;
    bound.sizes["M"] = rows;
    bound.tensors.resize(prepared_.plan.graph.nodes.size());
    return choose_step(prepared_, 0, late_, bound, rules);
  }
  int chosen(std::int64_t rows, const ChoiceRules& rules = {}) {
    const StepChoice choice = choose(rows, rules);
    return choice.kernel == nullptr ? 0 : kind(choice.kernel->config);
  }

  jit::TemporaryFolder folder_;
  std::shared_ptr<jit::Jit> jit_ = std::make_shared<jit::Jit>(jit::KernelCache(folder_.path()));
  codegen::KernelFamily family_ = make_family();
  Prepared prepared_;
  LateKernels late_{sm90(), jit_};
};

}  // namespace epifuse::cuda
