// Fused matrix products on the CPU: panels of oneDNN matmul, the epilogue on each tile while it is
// in cache.
#pragma once

#include <string>

#include "backends/cpu/buffers.h"
#include "backends/cpu/epilogue_program.h"
#include "backends/cpu/matmul.h"
#include "codegen/bound.h"
#include "plan/plan.h"

namespace epifuse::cpu {

void run_gemm(const plan::Plan& plan, const plan::FusedGemm& step, const EpilogueProgram& program,
              const codegen::Bound& bound, MatmulCache& matmuls, BufferPool& pool);

// How run_gemm does the step, for `explain`.
std::string describe_gemm(const plan::FusedGemm& step, MatmulCache& matmuls);

}  // namespace epifuse::cpu
