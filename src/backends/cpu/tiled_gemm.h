// A matrix product in tiles: panels of oneDNN matmul, the epilogue on each tile while it is in
// cache.
#pragma once

#include "backends/cpu/epilogue_run.h"
#include "backends/cpu/gemm_operands.h"

namespace epifuse::cpu {

// Runs the product and its epilogue; false, with nothing done, when oneDNN has no kernel for a
// tile. `in_blocks`: operands may be given to oneDNN in blocks.
bool multiply(const GemmProblem& problem, DType compute, bool in_blocks, EpilogueRun& epilogue,
              MatmulCache& matmuls, BufferPool& pool);

}  // namespace epifuse::cpu
