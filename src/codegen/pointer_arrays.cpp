#include "codegen/pointer_arrays.h"

#include <fmt/format.h>

#include "codegen/epilogue_layout.h"
#include "codegen/problem_views.h"
#include "kernels/abi.h"

namespace epifuse::codegen {

using plan::FusedGemm;
using plan::WhyNot;

std::optional<WhyNot> why_not_pointer_arrays(const plan::Plan& plan) {
  if (plan.steps.size() != 1 || !std::holds_alternative<FusedGemm>(plan.steps.front())) {
    return WhyNot{"several_kernels",
                  fmt::format("the graph takes {} kernels, or has no product.", plan.steps.size())};
  }
  const auto& step = std::get<FusedGemm>(plan.steps.front());
  const plan::GemmDesc& gemm = step.gemm;
  if (!gemm.batch.empty() || gemm.is_grouped() || gemm.flattened) {
    return WhyNot{"not_matrices", "its product is one of batches or groups, not of two matrices."};
  }
  if (gemm.is_scaled()) {
    return WhyNot{"block_scales",
                  "blocks of its operands have scales, which one product alone can."};
  }
  if (gemm.widens_b()) {
    return WhyNot{"widened_weights",
                  "its weights have 8 bits beside operands of 16, which one product alone can."};
  }
  if (step.epilogue.reduces()) {
    return WhyNot{"reduces", "it reduces rows or columns, which takes a kernel more."};
  }
  if (!product_views(plan, step)) {
    return WhyNot{"problem_views", "an operand is looked up, reshaped, or of more than two dims."};
  }
  const EpilogueLayout layout(step.epilogue);
  if ((layout.unstaged(List::tiles) | layout.unstaged(List::results)) != 0) {
    return WhyNot{"one_byte", "it reads or writes bytes in full, which one product alone can."};
  }
  if (problem_symbols(plan.graph).size() > abi::kMaxProblemSizes ||
      problem_tensors(plan.graph).size() > abi::kMaxProblemTensors) {
    return WhyNot{"too_many", fmt::format("it has more than {} sizes or {} tensors.",
                                          abi::kMaxProblemSizes, abi::kMaxProblemTensors)};
  }
  return std::nullopt;
}

}  // namespace epifuse::codegen
