// Products whose result is only stored: the plain oneDNN call.
#pragma once

#include "backends/cpu/gemm_operands.h"

namespace epifuse::cpu {

// True for a product that is only stored, in dtypes that one oneDNN call does as a user would call
// it.
bool is_one_call(const plan::FusedGemm& step);

// Runs the whole product as one multi-threaded oneDNN call when operands and result allow; false
// when they do not (then nothing was done).
bool run_bare_gemm(const GemmProblem& problem, const plan::FusedGemm& step,
                   const codegen::Bound& bound, MatmulCache& matmuls, BufferPool& pool);

}  // namespace epifuse::cpu
