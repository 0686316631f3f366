// Many problems of one plan in one launch: each described on the device, from arrays in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/family.h"

namespace epifuse::codegen {

// Problems as the caller gives them; arrays are where the device reads them.
struct ProblemArrays {
  struct Tensor {
    const void* const* data = nullptr;
    const std::int64_t* row_strides = nullptr;  // null: dense, or as the graph declares
  };
  std::int64_t count = 0;
  std::vector<std::string> symbols;  // the columns of `sizes`
  const std::int64_t* sizes = nullptr;
  std::vector<Tensor> tensors;  // by ValueId: inputs, and values that are outputs
  std::vector<double> scalars;  // by ValueId
  const std::int64_t* host_sizes = nullptr;
};

// Why a plan's problems cannot be one launch: it must be one product of matrices, whose operands
// are tensors or plain views of them.
std::optional<plan::WhyNot> why_not_problems(const plan::Plan& plan);

// What becomes of a family's configs for many problems; none of clusters.
std::vector<GemmConfig> problem_configs(std::span<const GemmConfig> configs);

// The kernels beside that of the family: one that describes the problems, and one that does those
// which the family's kernel cannot take. Only of plans without a why_not_problems.
KernelSource describe_source(const plan::Plan& plan, const GemmConfig& config,
                             const targets::TargetInfo& target);
KernelSource by_hand_source(const plan::Plan& plan, const targets::TargetInfo& target);

// The three launches, in this order, which share a workspace of `problem_bytes`.
std::size_t problem_bytes(std::int64_t count);
struct ProblemLaunches {
  Launch describe, product, by_hand;
};
// `usual`: the family's launch on tensors of typical sizes, of a config of problem_configs.
ProblemLaunches problem_launches(const plan::Plan& plan, const GemmConfig& config,
                                 const Launch& usual, const ProblemArrays& problems,
                                 const targets::DeviceLimits& limits, char* workspace);

}  // namespace epifuse::codegen
