// Groups of rows, and rows that are looked up, as the Hopper GEMM takes them.
#include <fmt/format.h>

#include <utility>

#include "codegen/product_roles.h"
#include "codegen/row_groups.h"
#include "codegen/sm90/dense.h"
#include "codegen/store_rounding.h"
#include "ir/views.h"

namespace epifuse::codegen::sm90 {

using plan::FusedGemm;
using plan::WhyNot;

namespace {

// Rows of K of another group must come as zeros, which whole rows can (kernels/sm90/k_groups.cuh).
std::optional<WhyNot> why_not_part_of_k(const plan::Plan& plan, const plan::Operand& operand,
                                        std::string_view side) {
  if (operand.major == plan::Major::mn) return std::nullopt;
  return WhyNot{fmt::format("{}_not_mn_major", side),
                fmt::format("groups along K start anywhere in rows of {}, and are read here where "
                            "it is not contiguous along K.",
                            plan.graph[operand.value].name)};
}

// A box starts at a multiple of 16 bytes, and groups start at any row.
std::optional<WhyNot> why_not_rows_of_groups(const plan::Plan& plan, const plan::GemmDesc& gemm) {
  if (!has_rows_of_groups(gemm) || gemm.a.major == plan::Major::k) return std::nullopt;
  return WhyNot{"a_not_k_major",
                fmt::format("groups start at any row of {}, which is read here where it is "
                            "contiguous along K.",
                            plan.graph[gemm.a.value].name)};
}

}  // namespace

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
  if (auto no = why_not_rows_of_groups(plan, gemm)) return no;
  if (gemm.is_k_grouped()) {
    if (auto no = why_not_part_of_k(plan, gemm.a, "a")) return no;
    if (auto no = why_not_part_of_k(plan, gemm.b, "b")) return no;
  }
  return why_not_rows_by_index(plan, step);
}

TensorMapRequest windows(TensorMapRequest rows_of_k, int step_k) {
  TensorMapRequest out = rows_of_k;
  out.rows = step_k;
  out.inner = rows_of_k.rows;
  out.inner_stride = rows_of_k.row_stride;
  return out;
}

FusedGemm as_compiled(FusedGemm step, const Variant& variant) {
  step.epilogue = without_repeated_casts(std::move(step.epilogue), !is_narrow(step.gemm.a.dtype));
  return paired(by_product(std::move(step)), variant);
}

}  // namespace epifuse::codegen::sm90
