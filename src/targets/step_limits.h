// How much one step may load and store: what a target's kernels have room for.
#pragma once

#include <compare>

namespace epifuse::targets {

// How many of each, by how they are read (plan::Access); parameters are numbers given at a call.
struct OperandLimits {
  int parameters, scalars, rows, cols, tiles;
  int loads;  // in memory, products among them
  int stores;
  auto operator<=>(const OperandLimits&) const = default;
};

// Of a product with its epilogue, and of elementwise work alone.
struct StepLimits {
  OperandLimits gemm, tail;
  bool reduces_rows_of_groups;  // in the kernel that multiplies them
  auto operator<=>(const StepLimits&) const = default;
};

// The room of a parameter block of the GPU kernels; codegen/epilogue_layout.cpp compares the two.
constexpr StepLimits kBlockLimits{
    .gemm =
        {.parameters = 8, .scalars = 8, .rows = 4, .cols = 4, .tiles = 4, .loads = 12, .stores = 4},
    .tail = {.parameters = 8,
             .scalars = 12,
             .rows = 12,
             .cols = 12,
             .tiles = 12,
             .loads = 12,
             .stores = 4},
    .reduces_rows_of_groups = true,
};
constexpr StepLimits kHostLimits{
    .gemm = kBlockLimits.gemm, .tail = kBlockLimits.tail, .reduces_rows_of_groups = false};

}  // namespace epifuse::targets
