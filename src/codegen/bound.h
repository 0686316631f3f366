// The values of a plan bound to memory.
#pragma once

#include <vector>

#include "ir/views.h"
#include "plan/plan.h"

namespace epifuse::codegen {

// A value of the plan bound to memory: layouts are in elements from `data`.
struct BoundTensor {
  void* data = nullptr;
  ir::Layout layout;
};

// Everything known once tensors are bound, indexed by ValueId of Plan::graph: resolved views for
// all values that steps load or store, and the run-time scalars.
struct Bound {
  Sizes sizes;
  std::vector<BoundTensor> tensors;
  std::vector<double> scalars;
  void* scratch = nullptr;  // of the kernel that is launched, where it takes any

  const BoundTensor& operator[](ir::ValueId id) const {
    return tensors[static_cast<std::size_t>(id)];
  }
  BoundTensor& operator[](ir::ValueId id) { return tensors[static_cast<std::size_t>(id)]; }
};

// What a store writes: of pairs elements as wide as f32, whose layout is in such elements.
DType stored_dtype(const plan::Store& store);
// The part of a bound value that a store writes.
BoundTensor stored(const Bound& bound, const plan::Store& store);

}  // namespace epifuse::codegen
