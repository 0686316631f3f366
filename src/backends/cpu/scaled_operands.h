// Operands of fp8 with block scales, as the CPU multiplies them: float32 copies with their scales.
#pragma once

#include <vector>

#include "backends/cpu/buffers.h"
#include "codegen/bound.h"
#include "plan/plan.h"

namespace epifuse::cpu {

// A step that multiplies such copies instead. They live as long as this does.
struct ScaledOperands {
  ScaledOperands(const ir::Graph& graph, const plan::FusedGemm& scaled, const codegen::Bound& from,
                 BufferPool& pool);
  plan::FusedGemm step;
  codegen::Bound bound;

 private:
  void copy(const ir::Graph& graph, plan::Operand& operand, bool k_is_last,
            const plan::OperandScales& scales, BufferPool& pool);
  std::vector<BufferPool::Buffer> buffers_;
};

}  // namespace epifuse::cpu
