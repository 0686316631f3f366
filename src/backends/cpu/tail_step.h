// Tails on the CPU: elementwise passes over memory, and the reductions that end them.
#pragma once

#include "backends/cpu/buffers.h"
#include "backends/cpu/epilogue_program.h"
#include "codegen/bound.h"
#include "plan/plan.h"

namespace epifuse::cpu {

void run_tail(const ir::Graph& graph, const plan::Tail& tail, const EpilogueProgram& program,
              const codegen::Bound& bound, BufferPool& pool);

}  // namespace epifuse::cpu
