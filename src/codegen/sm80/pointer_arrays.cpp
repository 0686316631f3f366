// The kernels of many problems that the cp.async + mma.sync GEMM does, and their launches.
#include "codegen/sm80/pointer_arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "codegen/pointer_array_sources.h"
#include "codegen/row_groups.h"
#include "codegen/sm80/gemm.h"

namespace epifuse::codegen::sm80 {
namespace {

plan::FusedGemm compiled_step(const plan::Plan& plan) { return by_product(only_step(plan)); }

}  // namespace

std::vector<Config> pointer_array_configs(const std::vector<Config>& configs) {
  std::vector<Config> out;
  for (Config config : configs) {
    if (!is_persistent(config)) continue;
    config.pointer_arrays = true;
    out.push_back(config);
  }
  return out;
}

KernelSource describe_source(const plan::Plan& plan, const Config&,
                             const targets::TargetInfo& target) {
  const plan::FusedGemm step = compiled_step(plan);
  Description description;
  description.header = "kernels/sm80/pointer_arrays.cuh";
  description.describer = "sm80::CopyDescriber";
  description.operand = [](DescribeText& out, std::string_view field, const plan::Operand& operand,
                           const std::string& view) {
    out.line(fmt::format("out.operand<{}, {}>(&abi::CopiedGemmParams::{}, {});",
                         size_bytes(operand.dtype), operand.major == plan::Major::k, field, view));
  };
  const auto add_full_size = [](std::string_view array) {
    return [array](DescribeText& out, const Place& place, const std::string& view) {
      out.line(fmt::format("out.full_size<{}>(out.gemm().{}[{}], {});", place.bytes, array,
                           place.index, view));
    };
  };
  description.load = add_full_size("plain_tiles");
  description.store = add_full_size("non_tma_stores");
  return codegen::describe_source(plan, step, step, description, target);
}

KernelSource by_hand_source(const plan::Plan& plan, const targets::TargetInfo& target) {
  return codegen::by_hand_source(plan, compiled_step(plan), target);
}

PointerArrayLaunches pointer_array_launches(const plan::Plan& plan, const Config& config,
                                            const Launch& usual, const BoundPointerArrays& problems,
                                            const targets::DeviceLimits& limits, char* workspace) {
  abi::CopiedGemmParams block{};
  std::memcpy(static_cast<void*>(&block), usual.params.data(),
              std::min(usual.params.size(), sizeof block));
  PointerArrayLaunches out = launches_beside(plan, block.gemm, config.tile_m,
                                             result_columns(config), problems, limits, workspace);
  out.product = usual;
  const abi::ProblemList all = problem_list(problems.count, workspace);
  set_params(out.product, &all, sizeof all);
  out.product.grid = static_cast<unsigned>(limits.num_sms * config.ctas);
  return out;
}

}  // namespace epifuse::codegen::sm80
