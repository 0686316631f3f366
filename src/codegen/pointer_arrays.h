// Many problems of one plan in one launch: each described on the device, from arrays in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/config.h"
#include "codegen/launch.h"
#include "plan/plan.h"
#include "targets/targets.h"

namespace epifuse::codegen {

// PointerArrays as the caller gives them; arrays are where the device reads them.
struct BoundPointerArrays {
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
std::optional<plan::WhyNot> why_not_pointer_arrays(const plan::Plan& plan);

// The three launches for many problems, in this order, which share a workspace.
struct PointerArrayLaunches {
  Launch describe, product, by_hand;
};

// What a family does of many problems beside its own kernel. Only of plans without a
// why_not_pointer_arrays.
struct PointerArrayFunctions {
  // What becomes of the family's configs; may be none.
  std::vector<GemmConfig> (*configs)(std::span<const GemmConfig>);
  // Whether problems may ask for the variant, which tensors of typical sizes do.
  bool (*takes)(const GemmVariant&);
  // The kernel that describes the problems to that of the config, and the one that does those which
  // the family's kernel cannot take.
  KernelSource (*describe_source)(const plan::Plan&, const GemmConfig&, const GemmVariant&,
                                  const targets::TargetInfo&);
  KernelSource (*by_hand_source)(const plan::Plan&, const targets::TargetInfo&);
  std::size_t (*workspace_bytes)(std::int64_t count);
  // `usual`: the family's launch on tensors of typical sizes, of a config of `configs` in their
  // variant.
  PointerArrayLaunches (*launches)(const plan::Plan&, const GemmConfig&, const Launch& usual,
                                   const BoundPointerArrays&, const targets::DeviceLimits&,
                                   char* workspace);
};

}  // namespace epifuse::codegen
