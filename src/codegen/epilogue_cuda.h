// Prints an epilogue as a straight-line CUDA device function of float values.
#pragma once

#include <string>

#include "plan/plan.h"

namespace epifuse::codegen {

// The function `epilogue(...)` that every kernel template calls, one statement per compute:
//
//   struct Operands { float row[R], col[C], tile[T], scalar[S], parameter[P]; };   (in kernels/)
//   __device__ __forceinline__ void epilogue(float acc, const Operands& x, float (&out)[num_stores])
//
// Loads of each access are numbered in order of Epilogue::loads. With has_accumulator false there is
// no `acc`. `numerics` picks the column of ops.def that gives each op's text.
std::string epilogue_cuda(const plan::Epilogue& epilogue, Numerics numerics);

// "__nv_bfloat16"-free spelling used in kernels/: element type tags of kernels/element.cuh.
std::string_view element_cuda(DType dtype);  // "Bf16", "F16", "F32", "E4m3", "E5m2", "Bool"

// Number of loads of one access.
int count(const plan::Epilogue& epilogue, plan::Access access);

}  // namespace epifuse::codegen
