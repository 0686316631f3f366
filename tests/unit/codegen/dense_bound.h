// Tensors that launches are made for, and nothing reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codegen/bound.h"
#include "epifuse/tensor.h"
#include "plan/plan.h"

namespace epifuse::codegen {

// All values of a plan as dense tensors of these sizes, at addresses that are multiples of 16 MiB.
inline Bound dense_bound(const plan::Plan& plan, const Sizes& sizes) {
  Bound out;
  out.sizes = sizes;
  out.tensors.resize(plan.graph.nodes.size());
  out.scalars.resize(out.tensors.size());
  char* const memory = reinterpret_cast<char*>(std::uintptr_t{1} << 24);  // never read
  for (std::size_t id = 0; id < out.tensors.size(); ++id) {
    const std::vector<std::int64_t> shape = ir::eval(plan.graph.nodes[id].type.shape, sizes);
    out.tensors[id] = {memory + (id << 24), {0, shape, TensorView::dense_strides(shape)}};
  }
  return out;
}

}  // namespace epifuse::codegen
