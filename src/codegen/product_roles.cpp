// The roles that a product's operands have in a kernel.
#include "codegen/product_roles.h"

#include <fmt/format.h>

#include <cstddef>
#include <utility>

namespace epifuse::codegen {
namespace {

using plan::Access;
using plan::FusedGemm;

bool is_single_row(const MatrixView& view) { return view.rows == 1; }
bool is_row_major(const MatrixView& view) { return view.col_stride == 1 || view.cols == 1; }
bool is_column_major(const MatrixView& view) {
  return !is_row_major(view) && (view.row_stride == 1 || is_single_row(view));
}

plan::StoreKind transposed(plan::StoreKind kind) {
  switch (kind) {
    case plan::StoreKind::block_first:  // of no step whose roles are exchanged
    case plan::StoreKind::tile: return kind;
    case plan::StoreKind::row_sum: return plan::StoreKind::col_sum;
    case plan::StoreKind::row_max: return plan::StoreKind::col_max;
    case plan::StoreKind::col_sum: return plan::StoreKind::row_sum;
    case plan::StoreKind::col_max: return plan::StoreKind::row_max;
  }
  return kind;
}

}  // namespace

FusedGemm exchanged(FusedGemm step) {
  std::swap(step.gemm.a, step.gemm.b);
  std::swap(step.gemm.a_scales, step.gemm.b_scales);
  for (plan::Load& load : step.epilogue.loads) {
    if (load.access == Access::row) {
      load.access = Access::col;
    } else if (load.access == Access::col) {
      load.access = Access::row;
    }
  }
  for (plan::Store& store : step.epilogue.stores) store.kind = transposed(store.kind);
  return step;
}

std::vector<FullSize> full_loads(const FusedGemm& step, const EpilogueLayout& layout,
                                 const GemmViews& views) {
  std::vector<FullSize> out;
  for (std::size_t i = 0; i < views.loads.size(); ++i) {
    const Place& place = layout.loads()[i];
    if (place.list != List::tiles) continue;
    out.push_back({place, views.loads[i], step.epilogue.loads[i].dtype});
  }
  return out;
}

std::vector<FullSize> full_stores(const FusedGemm& step, const EpilogueLayout& layout,
                                  const GemmViews& views) {
  std::vector<FullSize> out;
  for (std::size_t i = 0; i < views.stores.size(); ++i) {
    const Place& place = layout.stores()[i];
    if (place.list != List::results) continue;
    out.push_back({place, views.stores[i], stored_dtype(step.epilogue.stores[i])});
  }
  return out;
}

bool wants_exchange(const FusedGemm& step, const EpilogueLayout& layout, const GemmViews& views) {
  if (step.epilogue.has_blocks()) return false;
  std::ptrdiff_t row_major = 0, column_major = 0;
  for (const auto& all : {full_loads(step, layout, views), full_stores(step, layout, views)}) {
    for (const FullSize& full : all) {
      row_major += is_row_major(full.view) ? 1 : 0;
      column_major += is_column_major(full.view) ? 1 : 0;
    }
  }
  return column_major > row_major;
}

GemmViews exchanged(GemmViews views) {
  std::swap(views.a, views.b);
  if (views.scales.size() == 2) std::swap(views.scales[0], views.scales[1]);
  for (MatrixView& view : views.loads) view = transposed(view);
  for (MatrixView& view : views.stores) view = transposed(view);
  return views;
}

std::optional<plan::WhyNot> why_not_multiplied(const plan::Plan& plan, const plan::Operand& operand,
                                               std::string_view side) {
  const std::string& name = plan.graph[operand.value].name;
  if (operand.dtype == DType::f32 && !plan.allow_tf32) {
    return plan::WhyNot{"tf32_not_allowed",
                        fmt::format("{} is f32, which tensor cores multiply as TF32 only; --tf32, "
                                    "allow_tf32 or, in PyTorch, float32 matmul precision \"high\" "
                                    "asks for that.",
                                    name)};
  }
  if (operand.major == plan::Major::unknown) {
    return plan::WhyNot{fmt::format("{}_not_contiguous", side),
                        fmt::format("neither dim of {} is known to be contiguous.", name)};
  }
  return std::nullopt;
}

std::optional<plan::WhyNot> why_not_beside_widened(const plan::Plan& plan,
                                                   const plan::Operand& operand,
                                                   std::string_view side) {
  if (operand.major == plan::Major::k) return std::nullopt;
  return plan::WhyNot{fmt::format("{}_not_k_major", side),
                      fmt::format("{} is not contiguous along K, as operands must be of which one "
                                  "is widened.",
                                  plan.graph[operand.value].name)};
}

MatrixView rows_of(const plan::Operand& operand, const MatrixView& view) {
  return operand.major == plan::Major::k ? view : transposed(view);
}

MatrixView both_gates(MatrixView first) {
  first.rows *= 2;
  first.row_stride /= 2;
  return first;
}

bool has_adjacent_gates(const plan::GemmDesc& gemm) {
  return gemm.gating == plan::Gating::interleaved && gemm.b.major != plan::Major::k;
}

}  // namespace epifuse::codegen
