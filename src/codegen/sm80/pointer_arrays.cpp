// The kernels of many problems that the cp.async + mma.sync GEMM does, and their launches.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "codegen/family_row.h"
#include "codegen/pointer_array_sources.h"
#include "codegen/row_groups.h"
#include "codegen/sm80/gemm.h"

namespace epifuse::codegen::sm80 {
namespace {

// Gates of warps of 64x64 fit into registers where the epilogue stages half of a warp's rows at
// once: with fewer, too many sums wait for it; with more, some layouts spill too (2026-11-25).
std::optional<Config> fitted_gates(Config config) {
  constexpr int kMostResults = 2048, kBlockRows = 16;
  if (config.products == 1 || config.warp_m * config.warp_n <= kMostResults) return config;
  const int half = config.warp_m / kBlockRows / 2;
  if (config.staged_blocks < half) return std::nullopt;
  config.staged_blocks = half;
  return config;
}

plan::FusedGemm compiled_step(const plan::Plan& plan) { return by_product(only_step(plan)); }

// Those that take one tile after another.
std::vector<Config> configs_of_many(const std::vector<Config>& configs) {
  std::vector<Config> out;
  for (const Config& config : configs) {
    if (!is_persistent(config)) continue;
    std::optional<Config> of_many = fitted_gates(config);
    if (!of_many) continue;
    of_many->pointer_arrays = true;
    out.push_back(*of_many);
  }
  return out;
}

KernelSource describe_source(const plan::Plan& plan, const Config&, const Variant& variant,
                             const targets::TargetInfo& target) {
  const plan::FusedGemm step = compiled_step(plan);
  Description description;
  description.header = "kernels/sm80/pointer_arrays.cuh";
  description.describer = "sm80::CopyDescriber";
  description.operand = [&](DescribeText& out, std::string_view field, const plan::Operand& operand,
                            const std::string& view) {
    out.line(fmt::format("out.operand<{}, {}, {}>(&abi::CopiedGemmParams::{}, {});",
                         size_bytes(operand.dtype), operand.major == plan::Major::k,
                         field == "a" ? variant.alignment_a : variant.alignment_b, field, view));
  };
  const auto add_full_size = [](std::string_view array, unsigned one_by_one) {
    return [array, one_by_one](DescribeText& out, const Place& place, const std::string& view) {
      const bool is_one_by_one = (one_by_one >> place.index & 1u) != 0;
      const std::string function =
          is_one_by_one ? "elements" : fmt::format("vectors<{}>", place.bytes);
      out.line(fmt::format("out.{}(out.gemm().{}[{}], {});", function, array, place.index, view));
    };
  };
  description.load = add_full_size("plain_tiles", variant.non_tma_loads);
  description.store = add_full_size("non_tma_stores", variant.non_tma_stores);
  return codegen::describe_source(plan, step, step, description, target);
}

KernelSource by_hand_source(const plan::Plan& plan, const targets::TargetInfo& target) {
  return codegen::by_hand_source(plan, compiled_step(plan), target);
}

PointerArrayLaunches launches(const plan::Plan& plan, const Config& config, const Launch& usual,
                              const BoundPointerArrays& problems,
                              const targets::DeviceLimits& limits, char* workspace) {
  abi::CopiedGemmParams block{};
  std::memcpy(static_cast<void*>(&block), usual.params.data(),
              std::min(usual.params.size(), sizeof block));
  PointerArrayLaunches out =
      launches_of(plan, block.gemm, {config.tile_m, result_columns(config), config.ctas}, usual,
                  problems, limits, workspace);
  const abi::ProblemList all = problem_list(problems.count, workspace);
  set_params(out.product, &all, sizeof all);
  return out;
}

struct ManyProblems {
  using Config = sm80::Config;
  using Variant = sm80::Variant;
  static constexpr auto configs = configs_of_many;
  // Operands that have exchanged their roles are not described.
  static bool takes(const Variant& variant) { return !variant.swapped; }
  static constexpr auto describe_source = sm80::describe_source;
  static constexpr auto by_hand_source = sm80::by_hand_source;
  static constexpr auto launches = sm80::launches;
};

}  // namespace

const PointerArrayFunctions& pointer_arrays() { return kPointerArraysOf<ManyProblems>; }

}  // namespace epifuse::codegen::sm80
