// Groups of rows, and rows that are looked up, as the Hopper GEMM takes them.
#include <fmt/format.h>

#include <utility>

#include "codegen/row_groups.h"
#include "codegen/sm90/dense.h"
#include "codegen/store_rounding.h"
#include "ir/views.h"

namespace epifuse::codegen::sm90 {

using plan::FusedGemm;
using plan::WhyNot;

std::optional<WhyNot> why_not_groups(const plan::Plan& plan, const FusedGemm& step) {
  constexpr std::size_t kGatheredBytes = 2;  // an element, of kernels/sm90/gather.cuh
  const plan::GemmDesc& gemm = step.gemm;
  if (gemm.a.lookup >= 0) {
    const std::string& name = plan.graph[gemm.a.value].name;
    const auto found = ir::lookup(plan.graph, gemm.a.value);
    const bool by_rows = found && found->dim == 0 && gemm.a.major == plan::Major::k;
    if (!by_rows || size_bytes(gemm.a.dtype) != kGatheredBytes) {
      return WhyNot{
          "looked_up_rows",
          fmt::format("{} is looked up, which takes rows along K of 16-bit elements.", name)};
    }
  }
  return why_not_rows_by_index(plan, step);
}

FusedGemm as_compiled(FusedGemm step, const Variant& variant) {
  step.epilogue = without_repeated_casts(std::move(step.epilogue), !is_narrow(step.gemm.a.dtype));
  return paired(by_product(std::move(step)), variant);
}

}  // namespace epifuse::codegen::sm90
