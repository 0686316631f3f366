// Prints an epilogue as CUDA: a struct of operand types and one straight-line function of floats.
#pragma once

#include <string>
#include <string_view>

#include "plan/plan.h"

namespace epifuse::codegen {

// The text of `struct Epilogue`, which every kernel template is instantiated with:
//
//   struct Epilogue {
//     using Rows = Types<Bf16>;        // b[n]: the lists of EpilogueLayout
//     using Cols = Types<>;
//     using Tiles = Types<Bf16>;       // r[m, n]
//     using Scalars = Types<F32>;      // s[]
//     using Stores = Types<Bf16>;      // y[m, n]
//     static constexpr int kNumParameters = 1;  // alpha
//
//     // Where there are blocks: how many maxima, and which stores are of first columns.
//     static constexpr int kNumBlocks = 1;
//     static constexpr unsigned kBlockStores = 2;
//     // What those are maxima of; apply() finds them in x.block, and carried_slots() in `acc`.
//     static __device__ __forceinline__ void measure(float& acc, const Operands<Epilogue>& x,
//                                                    float (&out)[1]);
//
//     // acc: the product at (m, n), in f32; of a gated product there are two, gate and up
//     static __device__ __forceinline__ void apply(float acc, const Operands<Epilogue>& x,
//                                                  float (&out)[1]) {
//       const float b = x.row[0];
//       ...
//       out[0] = t2;  // y
//     }
//   };
//
// Without an accumulator (a tail) there is no `acc`; with one, Stores are those in full. Types,
// Operands and the element types are in kernels/common/operands.cuh and kernels/common/element.cuh.
// `numerics` picks the column of ops.def.
std::string epilogue_cuda(const plan::Epilogue& epilogue, Numerics numerics);

// The element type's name in kernels/common/element.cuh: "Bf16", "F16", "F32", "E4m3", "E5m2",
// "I8", "Bool".
std::string_view element_cuda(DType dtype);

// The lists of a product's reductions that are not empty, as members of its kernel's Config:
//   using RowReductions = Reductions<Reduce::sum>;  // y
std::string reductions_cuda(const plan::Epilogue& epilogue);

// "Reduce::none", "Reduce::sum" or "Reduce::max" (kernels/common/reduce.cuh).
std::string_view reduce_cuda(plan::StoreKind kind);

}  // namespace epifuse::codegen
