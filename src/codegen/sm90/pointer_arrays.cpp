// The kernels of many problems that the Hopper GEMM does, and their launches.
#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "codegen/family_row.h"
#include "codegen/pointer_array_sources.h"
#include "codegen/sm90/dense.h"

namespace epifuse::codegen::sm90 {
namespace {

using plan::FusedGemm;

// Finding a problem takes registers that the largest tiles do not have (spills, 2026-11-23).
constexpr int kMostAccumulators = 128, kFewestMathColumns = 16;

// By hand each column of pairs is stored alone.
FusedGemm by_hand(const plan::Plan& plan) {
  return as_compiled(only_step(plan), {.unpaired = true});
}

// An operand's map: of rows along K as they are, else of rows of K.
void add_operand(DescribeText& out, std::string_view field, const plan::Operand& operand,
                 const std::string& view) {
  const bool is_k_major = operand.major == plan::Major::k;
  out.line(fmt::format("out.operand<{}>(&abi::GemmParams::{}, {});", size_bytes(operand.dtype),
                       field,
                       is_k_major ? view : fmt::format("pointer_arrays::transposed({})", view)));
}

void add_map(DescribeText& out, std::string_view map, const Place& place, const std::string& view) {
  out.line(fmt::format("out.full_size_map<{}>(&abi::FullSizeMaps::{}, {}, {});", place.bytes, map,
                       place.index, view));
}

// None of clusters.
std::vector<Config> configs_of_many(const std::vector<Config>& configs) {
  std::vector<Config> out;
  for (Config config : configs) {
    if (cluster_size(config) > 1 || config.two_widths || config.swapped) continue;
    if (is_for_few_rows(config)) continue;
    config.pointer_arrays = true;
    if (accumulators(config) > kMostAccumulators) {
      config.math_columns = kFewestMathColumns;
    }
    out.push_back(config);
  }
  return out;
}

KernelSource describe_source(const plan::Plan& plan, const Config& config, const Variant&,
                             const targets::TargetInfo& target) {
  const FusedGemm step = as_compiled(only_step(plan), {});
  Description description;
  description.header = "kernels/common/pointer_array_maps.cuh";
  description.describer = "pointer_arrays::MapDescriber";
  description.operand = add_operand;
  description.load = [](DescribeText& out, const Place& place, const std::string& view) {
    add_map(out, "load", place, view);
  };
  description.store = [&](DescribeText& out, const Place& place, const std::string& view) {
    add_map(out, "store", place, view);
    if (cut_columns(config) % columns_of_slot(place.bytes) == 0) return;
    add_map(out, "cut_store", place, view);
  };
  description.finish = fmt::format(", {}", operand_format(step.gemm.a.dtype).step_k());
  return codegen::describe_source(plan, step, by_hand(plan), description, target);
}

KernelSource by_hand_source(const plan::Plan& plan, const targets::TargetInfo& target) {
  return codegen::by_hand_source(plan, by_hand(plan), target);
}

PointerArrayLaunches launches(const plan::Plan& plan, const Config& config, const Launch& usual,
                              const BoundPointerArrays& problems,
                              const targets::DeviceLimits& limits, char* workspace) {
  abi::GemmParams block{};
  EPIFUSE_CHECK(usual.params.size() == sizeof block, "the whole block");
  std::memcpy(&block, usual.params.data(), sizeof block);
  PointerArrayLaunches out = launches_of(plan, block, {config.tile_m, result_columns(config), 1},
                                         usual, problems, limits, workspace);
  const abi::ProblemList all = problem_list(problems.count, workspace);
  const abi::PointerArrayGemmParams product{block, all.problems, all.tiles, all.count};
  set_params(out.product, &product, sizeof product);
  return out;
}

struct ManyProblems {
  using Config = sm90::Config;
  using Variant = sm90::Variant;
  static constexpr auto configs = configs_of_many;
  static bool takes(const Variant& variant) { return variant == Variant{}; }
  static constexpr auto describe_source = sm90::describe_source;
  static constexpr auto by_hand_source = sm90::by_hand_source;
  static constexpr auto launches = sm90::launches;
};

}  // namespace

const PointerArrayFunctions& pointer_arrays() { return kPointerArraysOf<ManyProblems>; }

}  // namespace epifuse::codegen::sm90
