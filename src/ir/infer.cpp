// Typing rules: the result type of every op, or a GraphError that says what it expects.
#include <fmt/core.h>

#include <algorithm>

#include "base/ceil_div.h"
#include "base/check.h"
#include "epifuse/error.h"
#include "epifuse/tensor.h"
#include "ir/graph.h"
#include "ir/infer_scales.h"
#include "ir/infer_views.h"
#include "ir/text.h"
#include "kernels/abi.h"

namespace epifuse::ir {
namespace {

// The dtypes that elementwise arithmetic is done on.
bool is_computable(DType dtype) { return is_float(dtype) && !is_narrow(dtype); }

// "x: bf16[M, 768] and y: f32[768]"
std::string describe_operands(const Graph& graph, const Node& node) {
  std::string text;
  for (ValueId arg : node.args) {
    if (!text.empty()) text += " and ";
    text += describe_value(graph[arg]);
  }
  return text;
}

[[noreturn]] void fail(const Graph& graph, const Node& node, std::string_view expected) {
  throw GraphError(fmt::format("{} expects {}, got {}", name(node.op), expected,
                               describe_operands(graph, node)));
}

void check_arity(const Graph& graph, const Node& node) {
  const int arity = info(node.op).arity;
  if (static_cast<int>(node.args.size()) != arity) {
    throw GraphError(fmt::format("{} expects {} operand{}, got {}", name(node.op), arity,
                                 arity == 1 ? "" : "s", node.args.size()));
  }
  for (ValueId arg : node.args) {
    EPIFUSE_CHECK(arg >= 0 && arg < static_cast<ValueId>(graph.nodes.size()),
                  "operand is no earlier value of the graph");
  }
}

// Every size is in 0..2^40, the number of elements too (sizes of 0 count as 1, for the sake of
// strides), and the rank in bounds.
void check_shape(const Node& node, const Shape& shape) {
  if (shape.size() > static_cast<std::size_t>(abi::kMaxRank)) {
    throw GraphError(fmt::format("{} expects a shape of at most {} dims, got {}", name(node.op),
                                 abi::kMaxRank, print(shape)));
  }
  Dim num_elements = 1;
  for (const Dim& dim : shape) {
    const std::optional<std::int64_t> size = dim.constant();
    if (size && (*size < 0 || *size > kMaxElements)) {
      throw GraphError(
          fmt::format("{} expects sizes from 0 to 2^40, got {}", name(node.op), print(shape)));
    }
    if (!size || *size == 0) continue;
    num_elements = num_elements * dim;
    if (*num_elements.constant() > kMaxElements) {
      throw GraphError(fmt::format("{} expects a shape of at most 2^40 elements, got {}",
                                   name(node.op), print(shape)));
    }
  }
}

TensorType infer_input(const Node& node) {
  const TensorType& type = node.type;
  if (!type.strides.empty() && type.strides.size() != type.shape.size()) {
    throw GraphError(fmt::format("input {} expects one stride per dim of {}, got {} strides",
                                 node.name, print(type.shape), type.strides.size()));
  }
  for (const Dim& stride : type.strides) {
    const std::optional<std::int64_t> value = stride.constant();
    if (value && (*value < 0 || *value > kMaxElements)) {
      throw GraphError(
          fmt::format("input {} expects strides from 0 to 2^40, got {}", node.name, stride.str()));
    }
  }
  return type;
}

TensorType infer_constant(const Node& node) {
  if (node.value != node.value) throw GraphError("constant expects a number, got nan");
  return {DType::f32, {}, {}};
}

Shape broadcast_operands(const Graph& graph, const Node& node) {
  Shape shape;
  for (ValueId arg : node.args) {
    try {
      shape = broadcast_shapes(shape, graph[arg].type.shape);
    } catch (const GraphError&) {
      fail(graph, node, "shapes that broadcast (equal sizes, or 1, aligned at the right)");
    }
  }
  return shape;
}

// The one dtype of the operands from `first` on; 0-d f32 values go with any.
DType common_dtype(const Graph& graph, const Node& node, std::size_t first) {
  std::optional<DType> common;
  for (std::size_t i = first; i < node.args.size(); ++i) {
    const TensorType& type = graph[node.args[i]].type;
    if (!is_computable(type.dtype)) {
      fail(graph, node, "bf16, f16 or f32 operands (cast other floats first)");
    }
    if (type.dtype == DType::f32 && type.shape.empty()) continue;
    if (common && *common != type.dtype) {
      fail(graph, node, "operands of one dtype (only 0-d f32 values go with any)");
    }
    common = type.dtype;
  }
  return common.value_or(DType::f32);
}

TensorType infer_elementwise(const Graph& graph, const Node& node) {
  const Shape shape = broadcast_operands(graph, node);
  switch (info(node.op).kind) {
    case OpKind::compare: common_dtype(graph, node, 0); return {DType::boolean, shape, {}};
    case OpKind::select:
      if (graph[node.args[0]].type.dtype != DType::boolean) {
        fail(graph, node, "a bool condition and two float values");
      }
      return {common_dtype(graph, node, 1), shape, {}};
    default: return {common_dtype(graph, node, 0), shape, {}};
  }
}

TensorType infer_cast(const Graph& graph, const Node& node) {
  const bool is_copy = node.type.dtype == DType::i8 && graph[node.args[0]].type.dtype == DType::i8;
  if (!is_float(node.type.dtype) && !is_copy) {
    fail(graph, node, "a float dtype to round to (compare with ne for bool)");
  }
  if (is_integer(graph[node.args[0]].type.dtype)) {
    fail(graph, node, "a float or bool value (integers only number rows)");
  }
  return {node.type.dtype, graph[node.args[0]].type.shape, {}};
}

TensorType infer_reduction(const Graph& graph, const Node& node) {
  const TensorType& operand = graph[node.args[0]].type;
  const std::size_t rank = operand.shape.size();
  if (rank < 2 || !is_computable(operand.dtype)) {
    fail(graph, node, "a bf16, f16 or f32 value of at least 2 dims");
  }
  const bool over_row = node.op == Op::row_sum || node.op == Op::row_max;
  TensorType type{operand.dtype, operand.shape, {}};
  type.shape[rank - (over_row ? 1 : 2)] = 1;
  return type;
}

// How many blocks N columns are; none where that depends on the symbols of N.
std::optional<Dim> num_blocks(const Dim& n) {
  if (const auto columns = n.constant()) return Dim{ceil_div(*columns, kBlockColumns)};
  return n.divide(kBlockColumns);
}

TensorType infer_block(const Graph& graph, const Node& node) {
  const TensorType& operand = graph[node.args[0]].type;
  const std::size_t rank = operand.shape.size();
  if (rank < 2 || !is_computable(operand.dtype)) {
    fail(graph, node, "a bf16, f16 or f32 value of at least 2 dims");
  }
  if (node.block_rows != 1 && node.block_rows != kSquareRows) {
    throw GraphError(fmt::format("{} expects blocks of 1 or {} rows, got {}", name(node.op),
                                 kSquareRows, node.block_rows));
  }
  TensorType type{operand.dtype, operand.shape, {}};
  if (node.block_rows == kSquareRows) {
    const std::optional<Dim> down = type.shape[rank - 2].divide(kSquareRows);
    const std::optional<Dim> across = type.shape.back().divide(kBlockColumns);
    if (!down || !across) fail(graph, node, "rows and columns that are multiples of 128");
    if (node.op == Op::block_max) return type;
    type.shape[rank - 2] = *down;
    type.shape.back() = *across;
    return type;
  }
  if (node.op == Op::block_max) return type;
  const std::optional<Dim> count = num_blocks(type.shape.back());
  if (!count) fail(graph, node, "a number of columns that is known or a multiple of 128");
  type.shape.back() = *count;
  return type;
}

TensorType infer_join(const Graph& graph, const Node& node) {
  const TensorType& first = graph[node.args[0]].type;
  const TensorType& second = graph[node.args[1]].type;
  if (first.shape.empty() || first.shape != second.shape || first.dtype != second.dtype) {
    fail(graph, node, "two values of one dtype and one shape of at least 1 dim");
  }
  TensorType type{first.dtype, first.shape, {}};
  type.shape.back() = type.shape.back() * 2;
  return type;
}

TensorType infer_scatter(const Graph& graph, const Node& node) {
  const TensorType& rows = graph[node.args[0]].type;
  const TensorType& places = graph[node.args[1]].type;
  const bool is_index = is_integer(places.dtype) && places.shape.size() == 1;
  if (!is_float(rows.dtype) || rows.shape.size() < 2 || !is_index ||
      places.shape[0] != rows.shape[0]) {
    fail(graph, node, "a float value [T, ..] and the row of each in an index i32[T] or i64[T]");
  }
  TensorType type{rows.dtype, rows.shape, {}};
  type.shape[0] = node.type.shape.empty() ? Dim{} : node.type.shape[0];
  if (type.shape != node.type.shape) {
    throw GraphError(
        fmt::format("put_rows of {} expects a shape that differs in its first size "
                    "alone, got {}",
                    describe_value(graph[node.args[0]]), print(node.type.shape)));
  }
  return type;
}

[[noreturn]] void fail_matmul(const Graph& graph, const Node& node, std::string_view problem) {
  const Node& a = graph[node.args[0]];
  const Node& b = graph[node.args[1]];
  throw GraphError(fmt::format("{} expects [.., M, K] x [.., K, N], got {}{} x {}{}: {}",
                               name(node.op), describe_value(a),
                               node.transpose_a ? " (transposed)" : "", describe_value(b),
                               node.transpose_b ? " (transposed)" : "", problem));
}

// Whether the second operand is widened to the first one's 16 bits, which hold all its values.
bool is_widened(const Node& node, DType a, DType b) {
  return node.op == Op::matmul && is_computable(a) && size_bytes(a) == 2 && is_narrow(b);
}

void check_matmul_dtypes(const Graph& graph, const Node& node) {
  const DType a = graph[node.args[0]].type.dtype, b = graph[node.args[1]].type.dtype;
  const bool is_alike = a == b && (is_computable(a) || is_narrow(a));
  if (!is_alike && !(is_fp8(a) && is_fp8(b)) && !is_widened(node, a, b)) {
    fail_matmul(graph, node,
                fmt::format("both must have the same dtype among bf16, f16, f32, i8, or be e4m3 or "
                            "e5m2 each{}",
                            node.op == Op::matmul
                                ? ", or the first bf16 or f16 and the second e4m3, e5m2 or i8"
                                : ""));
  }
  if (node.promoted && !is_fp8(a)) {
    fail_matmul(graph, node, "promoted are sums of e4m3 and e5m2 alone");
  }
  const DType result = node.type.dtype;
  if (is_narrow(a) && !is_computable(result)) {
    fail_matmul(graph, node,
                fmt::format("the result must be bf16, f16 or f32, not {}", name(result)));
  }
  if (!is_narrow(a) && result != a && result != DType::f32) {
    fail_matmul(graph, node,
                fmt::format("the result must be {} or f32, not {}", name(a), name(result)));
  }
}

// The size of K that a product's first operand has.
const Dim& depth(const Graph& graph, const Node& product) {
  const Shape& a = graph[product.args[0]].type.shape;
  return a[a.size() - (product.transpose_a ? 2 : 1)];
}

bool sums_fit(const Graph& graph, const Node& product, std::int64_t k) {
  return graph[product.args[0]].type.dtype != DType::i8 || k <= kMostProductsOfI8;
}

std::string too_many_products(const Node& product, std::int64_t k) {
  return fmt::format("{} '{}' expects a K of at most {} of i8, whose sums then fit 32 bits, got {}",
                     name(product.op), product.name, kMostProductsOfI8, k);
}

TensorType infer_matmul(const Graph& graph, const Node& node) {
  check_matmul_dtypes(graph, node);
  const Shape& a = graph[node.args[0]].type.shape;
  const Shape& b = graph[node.args[1]].type.shape;
  constexpr std::size_t kMinRank = 2, kMaxRank = 5;
  if (std::min(a.size(), b.size()) < kMinRank || std::max(a.size(), b.size()) > kMaxRank) {
    fail_matmul(graph, node, "both must have 2 to 5 dims");
  }
  const Dim& m = a[a.size() - (node.transpose_a ? 1 : 2)];
  const Dim& k_of_a = a[a.size() - (node.transpose_a ? 2 : 1)];
  const Dim& k_of_b = b[b.size() - (node.transpose_b ? 1 : 2)];
  const Dim& n = b[b.size() - (node.transpose_b ? 2 : 1)];
  if (k_of_a != k_of_b) {
    fail_matmul(graph, node, fmt::format("K is {} and {}", k_of_a.str(), k_of_b.str()));
  }
  TensorType type{node.type.dtype, {}, {}};
  try {
    type.shape = broadcast_shapes({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
  } catch (const GraphError&) {
    fail_matmul(graph, node, "their batch dims do not broadcast");
  }
  type.shape.push_back(m);
  type.shape.push_back(n);
  return type;
}

[[noreturn]] void fail_grouped(const Graph& graph, const Node& node, std::string_view problem) {
  const Node& w = graph[node.args[1]];
  throw GraphError(fmt::format(
      "grouped_matmul expects [T, K] x [G, K, N] and the ends of groups, or [G, M, K] x "
      "[G, K, N] and the sizes of groups, [G] of i32 or i64, got {} x {}{} and {}: {}",
      describe_value(graph[node.args[0]]), describe_value(w),
      node.transpose_b ? " (transposed)" : "", describe_value(graph[node.args[2]]), problem));
}

TensorType infer_grouped_matmul(const Graph& graph, const Node& node) {
  check_matmul_dtypes(graph, node);
  const Shape& x = graph[node.args[0]].type.shape;
  const Shape& w = graph[node.args[1]].type.shape;
  const TensorType& groups = graph[node.args[2]].type;
  const auto fail_if = [&](bool fails, std::string_view problem) {
    if (fails) fail_grouped(graph, node, problem);
  };
  fail_if(node.transpose_a, "x cannot be transposed");
  fail_if(w.size() != 3 || x.size() < 2 || x.size() > 3, "the numbers of dims differ from that");
  const Dim& k = w[node.transpose_b ? 2 : 1];
  fail_if(x.back() != k, fmt::format("K is {} and {}", x.back().str(), k.str()));
  fail_if(!is_integer(groups.dtype) || groups.shape != Shape{w[0]},
          fmt::format("one integer is needed for each of {} groups", w[0].str()));
  fail_if(x.size() == 3 && x[0] != w[0], fmt::format("G is {} and {}", x[0].str(), w[0].str()));
  TensorType type{node.type.dtype, x, {}};
  type.shape.back() = w[node.transpose_b ? 1 : 2];
  return type;
}

TensorType infer_k_grouped_matmul(const Graph& graph, const Node& node) {
  const TensorType& groups = graph[node.args[2]].type;
  const auto rank = [&](std::size_t i) { return graph[node.args[i]].type.shape.size(); };
  if (rank(0) != 2 || rank(1) != 2) fail_matmul(graph, node, "both must have 2 dims");
  if (!is_integer(groups.dtype) || groups.shape.size() != 1) {
    fail_matmul(graph, node,
                fmt::format("the ends of groups along K must be i32[G] or i64[G], not {}",
                            describe_value(graph[node.args[2]])));
  }
  TensorType type = infer_matmul(graph, node);
  type.shape.insert(type.shape.begin(), groups.shape[0]);
  return type;
}

TensorType infer_any_matmul(const Graph& graph, const Node& node) {
  if (is_grouped_matmul(node.op)) return infer_grouped_matmul(graph, node);
  if (node.op == Op::k_grouped_matmul) return infer_k_grouped_matmul(graph, node);
  return infer_matmul(graph, node);
}

TensorType infer_unchecked(const Graph& graph, const Node& node) {
  switch (info(node.op).kind) {
    case OpKind::matmul: {
      TensorType type = infer_any_matmul(graph, node);
      const auto k = depth(graph, node).constant();
      if (k && !sums_fit(graph, node, *k)) throw GraphError(too_many_products(node, *k));
      if (is_scaled_matmul(node.op)) check_scales(graph, node);
      return type;
    }
    case OpKind::view: return infer_view(graph, node);
    case OpKind::cast: return infer_cast(graph, node);
    case OpKind::reduction: return infer_reduction(graph, node);
    case OpKind::block: return infer_block(graph, node);
    case OpKind::join: return infer_join(graph, node);
    case OpKind::scatter: return infer_scatter(graph, node);
    case OpKind::source: break;
    default: return infer_elementwise(graph, node);
  }
  switch (node.op) {
    case Op::input: return infer_input(node);
    case Op::constant: return infer_constant(node);
    default: return {DType::f32, {}, {}};
  }
}

}  // namespace

DType usual_result(DType operand) { return is_narrow(operand) ? DType::f32 : operand; }

void check_integer_sums(const Graph& graph, const Node& product, const Sizes& sizes) {
  const std::int64_t k = depth(graph, product).eval(sizes);
  if (!sums_fit(graph, product, k)) throw ArgumentError(too_many_products(product, k));
}

TensorType infer_type(const Graph& graph, const Node& node) {
  check_arity(graph, node);
  // What was asked for is checked first, so that sums and products of it stay small.
  check_shape(node, node.type.shape);
  TensorType type = infer_unchecked(graph, node);
  check_shape(node, type.shape);
  return type;
}

}  // namespace epifuse::ir
