#include "codegen/problem_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "codegen/bound.h"
#include "ir/views.h"

namespace epifuse::codegen {
namespace {

bool takes_row_stride(const ir::Node& node) {
  const bool is_declared = node.op == ir::Op::input && !node.type.strides.empty();
  return node.type.shape.size() >= 2 && !is_declared;
}

// A C++ expression, short where it can be.
struct Expression {
  std::string text;
  Expression(std::string any) : text(std::move(any)) {}  // NOLINT: implicit, as of a number
  explicit Expression(int number) : text(std::to_string(number)) {}

  std::string in_parentheses() const {
    const bool is_word = std::ranges::all_of(
        text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; });
    return is_word ? text : fmt::format("({})", text);
  }
  friend Expression operator*(const Expression& x, const Expression& y) {
    if (y.text == "1") return x;
    return fmt::format("{} * {}", x.in_parentheses(), y.in_parentheses());
  }
  friend Expression operator+(const Expression& x, const Expression& y) {
    if (y.text == "0") return x;
    return x.text == "0" ? y : fmt::format("{} + {}", x.text, y.text);
  }
};

// The parts of b that the two products of a gated one multiply; `n` columns each.
void share_out(const plan::GemmDesc& gemm, const std::string& n, ProductViews& views) {
  if (gemm.halves() == ir::Halves::none) return;
  const auto part = [&](bool is_second) {
    const auto piece = ir::piece<Expression>(gemm.halves(), is_second, n, views.all_b.row_stride);
    ViewText view = views.all_b;
    view.rows = n;
    view.row_stride = piece.stride.text;
    view.offset = (Expression(view.offset) + piece.offset).text;
    return view;
  };
  views.b = part(false);
  views.second_b = part(true);
}

// What a store writes of its value; `n` columns of results.
ViewText stored(ViewText view, const plan::Store& store, const std::string& n) {
  view.dtype = stored_dtype(store);
  if (store.part == plan::Part::whole) return view;
  view.cols = n;
  view.is_paired = store.part == plan::Part::pairs;
  if (view.is_paired) return view;
  const auto piece = ir::piece<Expression>(plan::halves(store.part), plan::is_second(store.part), n,
                                           view.col_stride);
  view.col_stride = piece.stride.text;
  view.offset = (Expression(view.offset) + piece.offset).text;
  return view;
}

}  // namespace

std::vector<ir::ValueId> problem_tensors(const ir::Graph& graph) {
  std::vector<ir::ValueId> tensors;
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    if (graph.nodes[id].op == ir::Op::input) tensors.push_back(static_cast<ir::ValueId>(id));
  }
  for (const ir::Output& output : graph.outputs) tensors.push_back(output.value);
  return tensors;
}

std::vector<std::string> problem_symbols(const ir::Graph& graph) {
  const std::vector<std::string> of_sizes = ir::size_symbols(graph);
  std::set<std::string> symbols(of_sizes.begin(), of_sizes.end());
  for (const ir::Node& node : graph.nodes) {
    for (const Dim& dim : node.type.strides) {
      for (std::string& symbol : dim.symbols()) symbols.insert(std::move(symbol));
    }
  }
  return {symbols.begin(), symbols.end()};
}

ProblemViews::ProblemViews(const ir::Graph& graph)
    : graph_(graph), tensors_(problem_tensors(graph)) {
  const std::vector<std::string> symbols = problem_symbols(graph);
  for (std::size_t i = 0; i < symbols.size(); ++i) names_[symbols[i]] = fmt::format("size{}", i);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    std::string symbol = fmt::format("row_stride_{}", i);
    while (names_.contains(symbol)) symbol += '_';
    names_[symbol] = fmt::format("stride{}", i);
    stride_symbols_.push_back(std::move(symbol));
  }
}

std::string ProblemViews::text(const Dim& dim) const {
  const std::string written = dim.str();
  std::string out;
  for (std::size_t i = 0; i < written.size();) {
    const auto is_word = [&](std::size_t at) {
      const auto c = static_cast<unsigned char>(written[at]);
      return std::isalnum(c) != 0 || c == '_';
    };
    std::size_t end = i;
    while (end < written.size() && is_word(end)) ++end;
    if (end == i) {
      out += written[i++];
      continue;
    }
    const std::string word = written.substr(i, end - i);
    const auto name = names_.find(word);
    out += name != names_.end() ? name->second : word;
    i = end;
  }
  return out;
}

std::optional<std::string> ProblemViews::dense_row_stride(int tensor) const {
  const ir::Node& node = graph_[tensors_[static_cast<std::size_t>(tensor)]];
  if (!takes_row_stride(node)) return std::nullopt;
  return text(node.type.shape.back());
}

// Row-major, rows as far apart as the problem says, unless strides are declared.
ProblemViews::Placed ProblemViews::of_tensor(ir::ValueId value, int tensor) const {
  const ir::Node& node = graph_[value];
  Placed placed{tensor, {Dim(0), node.type.shape, {}}};
  ir::SymbolicLayout& out = placed.layout;
  if (node.op == ir::Op::input && !node.type.strides.empty()) {
    out.strides = node.type.strides;
    return placed;
  }
  Dim stride(1);
  for (std::size_t d = out.shape.size(); d-- > 0;) {
    const bool is_row = d + 2 == out.shape.size();
    if (is_row) stride = Dim(std::string_view(stride_symbols_[static_cast<std::size_t>(tensor)]));
    out.strides.insert(out.strides.begin(), stride);
    stride = stride * out.shape[d];
  }
  return placed;
}

std::optional<ProblemViews::Placed> ProblemViews::place(ir::ValueId value) const {
  const auto tensor = std::ranges::find(tensors_, value);
  if (tensor != tensors_.end()) {
    return of_tensor(value, static_cast<int>(tensor - tensors_.begin()));
  }
  const ir::Node& node = graph_[value];
  const bool is_strided = ir::is_view(node.op) && !ir::is_lookup(node.op);
  if (!is_strided || node.op == ir::Op::reshape) return std::nullopt;
  const std::optional<Placed> from = place(node.args.front());
  if (!from) return std::nullopt;
  auto to = ir::through(node, from->layout);
  if (!to) return std::nullopt;
  return Placed{from->tensor, *std::move(to)};
}

std::optional<ViewText> ProblemViews::view(ir::ValueId value) const {
  const std::optional<Placed> found = place(value);
  if (!found || found->layout.shape.size() > 2) return std::nullopt;
  const std::size_t rank = found->layout.shape.size();
  ViewText out;
  out.tensor = found->tensor;
  out.dtype = graph_[value].type.dtype;
  out.name = graph_[value].name;
  out.offset = text(found->layout.offset);
  if (rank > 0) {
    out.cols = text(found->layout.shape.back());
    out.col_stride = text(found->layout.strides.back());
  }
  if (rank > 1) {
    out.rows = text(found->layout.shape.front());
    out.row_stride = text(found->layout.strides.front());
  }
  return out;
}

ViewText transposed(ViewText view) {
  std::swap(view.rows, view.cols);
  std::swap(view.row_stride, view.col_stride);
  return view;
}

std::optional<ProductViews> product_views(const plan::Plan& plan, const plan::FusedGemm& step) {
  const ProblemViews views(plan.graph);
  const plan::GemmDesc& gemm = step.gemm;
  const std::string n = views.text(gemm.n);
  const auto operand = [&](const plan::Operand& from, bool is_b) {
    std::optional<ViewText> view = views.view(from.value);
    const bool turns = is_b != from.transposed;  // b is [k, n] in memory unless transposed
    if (view && turns) view = transposed(*std::move(view));
    return view;
  };
  const auto a = operand(gemm.a, false), b = operand(gemm.b, true);
  if (!a || !b) return std::nullopt;
  ProductViews out{*a, *b, *b, {}, {}, {}};
  if (gemm.gating == plan::Gating::separate) {
    const auto second = operand(gemm.second_b, true);
    if (!second) return std::nullopt;
    out.second_b = *second;
  }
  share_out(gemm, n, out);
  for (const plan::Load& load : step.epilogue.loads) {
    const bool is_parameter = load.access == plan::Access::parameter;
    const auto view = is_parameter ? ViewText{} : views.view(load.value);
    if (!view) return std::nullopt;
    out.loads.push_back(*view);
  }
  for (const plan::Store& store : step.epilogue.stores) {
    const auto view = views.view(store.value);
    if (!view) return std::nullopt;
    out.stores.push_back(stored(*view, store, n));
  }
  return out;
}

}  // namespace epifuse::codegen
