// The operands of a product as matrices whose sizes and strides are expressions over the sizes of a
// problem: what matrix_view.h has in numbers.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/views.h"
#include "plan/plan.h"

namespace epifuse::codegen {

// A matrix in one of a plan's tensors; C++ expressions over size0, stride0, .., in elements.
struct ViewText {
  int tensor = 0;  // number among problem_tensors
  DType dtype = DType::f32;
  std::string name;  // of the value, for comments
  std::string offset = "0", rows = "1", cols = "1", row_stride = "0", col_stride = "1";
  bool is_paired = false;  // offset and row_stride are in elements half as wide as `dtype`
  bool operator==(const ViewText&) const = default;
};

// What a problem's tensors are called: inputs, then values that are outputs.
std::vector<ir::ValueId> problem_tensors(const ir::Graph& graph);
// The symbols of sizes and of declared strides, sorted.
std::vector<std::string> problem_symbols(const ir::Graph& graph);

class ProblemViews {
 public:
  explicit ProblemViews(const ir::Graph& graph);

  // A value of at most two dims as a matrix; empty where reshapes or look-ups are in between.
  std::optional<ViewText> view(ir::ValueId value) const;
  // A size as an expression.
  std::string text(const Dim& dim) const;
  // The row stride of a tensor where it is dense; empty of one without row strides.
  std::optional<std::string> dense_row_stride(int tensor) const;

 private:
  struct Placed {
    int tensor;
    ir::SymbolicLayout layout;
  };
  Placed of_tensor(ir::ValueId value, int tensor) const;
  std::optional<Placed> place(ir::ValueId value) const;

  const ir::Graph& graph_;
  std::vector<ir::ValueId> tensors_;
  std::vector<std::string> stride_symbols_;   // of each tensor's rows
  std::map<std::string, std::string> names_;  // of symbols, in generated code
};

ViewText transposed(ViewText view);

// What a product reads and writes, as its kernel sees it; loads and stores as many as the
// epilogue's, that of a parameter means nothing.
struct ProductViews {
  ViewText a, b;   // a[m, k], b[n, k]
  ViewText all_b;  // of a gated product: with the columns of both
  ViewText second_b;
  std::vector<ViewText> loads, stores;
};
// Empty where an operand has no view.
std::optional<ProductViews> product_views(const plan::Plan& plan, const plan::FusedGemm& step);

}  // namespace epifuse::codegen
