// The roles that a product's operands have in a kernel: which is read by rows of K, what is
// exchanged where results are column-major, what the epilogue reads and writes in full.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "codegen/epilogue_layout.h"
#include "codegen/matrix_view.h"
#include "plan/plan.h"

namespace epifuse::codegen {

// D^T = B^T * A^T: a and b, rows and columns exchange their roles in everything.
plan::FusedGemm exchanged(plan::FusedGemm step);
GemmViews exchanged(GemmViews views);

// A matrix that the epilogue reads or writes in full.
struct FullSize {
  Place place;
  MatrixView view;
  DType dtype;
};
std::vector<FullSize> full_loads(const plan::FusedGemm& step, const EpilogueLayout& layout,
                                 const GemmViews& views);
std::vector<FullSize> full_stores(const plan::FusedGemm& step, const EpilogueLayout& layout,
                                  const GemmViews& views);
// Whether most of what the epilogue reads and writes in full is column-major; blocks of columns
// stay columns.
bool wants_exchange(const plan::FusedGemm& step, const EpilogueLayout& layout,
                    const GemmViews& views);

// Why tensor cores cannot read an operand of a dtype that a family multiplies; `side` is a or b.
std::optional<plan::WhyNot> why_not_multiplied(const plan::Plan& plan, const plan::Operand& operand,
                                               std::string_view side);

// The same, where one operand is widened: both are read along K.
std::optional<plan::WhyNot> why_not_beside_widened(const plan::Plan& plan,
                                                   const plan::Operand& operand,
                                                   std::string_view side);

// The operand as the rows in which it is contiguous.
MatrixView rows_of(const plan::Operand& operand, const MatrixView& view);

// Whether a kernel multiplies one product after another: of a batch, or of groups.
inline bool is_batched(const plan::GemmDesc& gemm) {
  return !gemm.batch.empty() || gemm.is_grouped();
}
// Whether the vendor's library multiplies such a product here.
inline bool has_vendor(const plan::GemmDesc& gemm) {
  return !gemm.has_groups() && !gemm.is_scaled() && gemm.a.dtype != DType::i8;
}
// Whether the rows of all groups lie one behind the other, each group's where the one before ends.
inline bool has_rows_of_groups(const plan::GemmDesc& gemm) {
  return gemm.is_grouped() && !gemm.is_padded();
}
// Whether a gated product reads both of its operands as one, whose columns go to them by turns.
bool has_adjacent_gates(const plan::GemmDesc& gemm);
// The columns of both products, of which `first` has every other one.
MatrixView both_gates(MatrixView first);

}  // namespace epifuse::codegen
