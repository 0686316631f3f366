// Builds a graph in C++: the same graph, kernel and cache entry as the `.epi` text gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "epifuse/dim.h"
#include "epifuse/dtype.h"

namespace epifuse {

namespace ir {
struct Graph;
}

class Graph;
struct GraphState;

/// A value of a graph under construction. Cheap to copy; keeps its graph alive.
class Value {
 public:
  DType dtype() const;
  std::vector<Dim> shape() const;

  // Copies alone: what was moved from stays a value.
  Value(const Value&) = default;
  Value& operator=(const Value&) = default;
  ~Value() = default;

 private:
  friend class Graph;
  friend struct ValueAccess;
  Value(std::shared_ptr<GraphState> state, std::size_t id) : state_(std::move(state)), id_(id) {}
  std::shared_ptr<GraphState> state_;
  std::size_t id_;  // values of a graph are numbered in order of their making
};

/// A graph: inputs, ops on them, outputs. Every op checks its operands and throws GraphError saying
/// what it expected and what came; values of different graphs do not mix (ArgumentError). Names are
/// sanitised to identifiers and made unique. A size symbol is declared by the input that uses it.
/// Copies are the same graph: what is added to one is in all.
class Graph {
 public:
  explicit Graph(std::string_view name);
  /// Reads `.epi` text (docs/epi.md). Throws ParseError.
  static Graph parse(std::string_view text);

  /// A tensor the caller binds at run time. `strides` in elements, one per dim; empty: row-major,
  /// outer strides taken from the tensor at run time.
  Value input(std::string_view name, DType dtype, const std::vector<Dim>& shape,
              const std::vector<Dim>& strides = {});
  /// A float32 number the caller passes by value at run time.
  Value scalar(std::string_view name);
  /// A float32 constant.
  Value constant(double value);
  /// Declares `value` an output called `name`. Order of calls is the order of outputs.
  void output(std::string_view name, const Value& value);
  /// The graph as `.epi` text; parse(str()) gives the same graph.
  std::string str() const;

  /// The graph in the form that the compiler reads: inputs first, then the ops in order.
  const ir::Graph& ir() const;

  // Copies alone: what was moved from can still be built on.
  Graph(const Graph&) = default;
  Graph& operator=(const Graph&) = default;
  ~Graph() = default;

 private:
  friend struct ValueAccess;
  explicit Graph(std::shared_ptr<GraphState> state) : state_(std::move(state)) {}
  std::shared_ptr<GraphState> state_;
};

/// How products of e4m3 and e5m2 are added up: `fast` as the device does, which on some GPUs keeps
/// fewer bits than float32 has; `promoted` in float32 from one 128 products of K to the next. Sums
/// of i8 are exact integers, those of other dtypes float32: `fast` to this interface.
enum class Sums : std::uint8_t { fast, promoted };

/// Matrix product over the last two dims, [.., M, K] x [.., K, N] -> [.., M, N], float32
/// accumulation; of i8 exact, up to a K of 131071. Operands have one dtype, or are e4m3 or e5m2
/// each, or `a` is bf16 or f16 and `b` of 8 bits, which are multiplied as those of `a`. The result
/// has the dtype of `a`, f32 of e4m3, e5m2 and i8; the second form names another.
Value matmul(const Value& a, const Value& b);
Value matmul(const Value& a, const Value& b, DType result, Sums sums = Sums::fast);
/// The same of e4m3 and e5m2 operands with a scale, f32, for each 128 elements along K (the last
/// block may be shorter): `a_scales` [.., M, K / 128 rounded up], `b_scales` [.., N, ..] or, a
/// scale for 128 x 128 elements, [.., N / 128 rounded up, ..]. Each block's sum takes both scales
/// and is added in float32.
Value scaled_matmul(const Value& a, const Value& b, const Value& a_scales, const Value& b_scales,
                    DType result = DType::f32);
/// Swaps the last two dims (a view).
Value transpose(const Value& x);
/// Permutes dims: result dim i is dim `permutation[i]` of x (a view).
Value transpose(const Value& x, const std::vector<int>& permutation);
/// Same elements in row-major order, another shape (a view where strides allow).
Value reshape(const Value& x, const std::vector<Dim>& shape);
/// Elements start, start+step, ... < stop of every dim (a view).
struct Range {
  Dim start, stop;
  std::int64_t step = 1;
};
Value slice(const Value& x, const std::vector<Range>& ranges);
/// Repeats size-1 and missing leading dims to `shape` (a stride-0 view).
Value broadcast(const Value& x, const std::vector<Dim>& shape);
/// Rounds to another dtype (to nearest even; saturating for e4m3). Never dropped.
Value cast(const Value& x, DType dtype);
/// Reductions of [.., M, N] over the last dim -> [.., M, 1], or the one before -> [.., 1, N].
Value row_sum(const Value& x);
Value row_max(const Value& x);  ///< largest of each row; NaN if any is
Value col_sum(const Value& x);  ///< sum of each column
Value col_max(const Value& x);  ///< largest of each column
/// Of blocks of 128 columns, from the first one on: each element becomes the largest of its block,
/// in its row; or the first columns of the blocks alone, [.., N] -> [.., ceil(N / 128)]. With 128
/// `rows`, the only other number of them, blocks are squares that M and N of [.., M, N] are
/// multiples of: block_first gives [.., M / 128, N / 128].
Value block_max(const Value& x, int rows = 1);
Value block_first(const Value& x, int rows = 1);
/// Two values of one dtype and shape [.., N] as one of shape [.., 2 N]: b behind a, or their
/// elements by turns, a's first.
Value concat(const Value& a, const Value& b);
Value interleave(const Value& a, const Value& b);

/// A product for each group of rows. Of `x` [T, K], group g has the rows from ends[g - 1] (0 for
/// the first) to ends[g], and `w` is [G, K, N]; ends never fall and are at most T. Of `x` [G, M,
/// K], `ends` are sizes: the first ends[g] rows of x[g] are computed. i32 or i64 [G], read on the
/// device. A `w` that is transposed first may be [G, N, K]. Rows of no group are neither computed
/// nor written.
Value grouped_matmul(const Value& x, const Value& w, const Value& ends);
Value grouped_matmul(const Value& x, const Value& w, const Value& ends, DType result,
                     Sums sums = Sums::fast);
/// The same with block scales, as scaled_matmul has them: of x [T, ..] or [G, M, ..], of w [G, ..].
Value scaled_grouped_matmul(const Value& x, const Value& w, const Value& ends,
                            const Value& x_scales, const Value& w_scales,
                            DType result = DType::f32);
/// A product for each group along K, as the gradients of grouped weights are: [g] is the product of
/// columns ends[g - 1] (0 for the first) to ends[g] of `a` [M, K] and those rows of `b` [K, N], as
/// [G, M, N]; zeros of a group without any. `a` and `b` may be transposed first.
Value k_grouped_matmul(const Value& a, const Value& b, const Value& ends);
Value k_grouped_matmul(const Value& a, const Value& b, const Value& ends, DType result,
                       Sums sums = Sums::fast);
/// A view of `x` [R, ..]: row t is x[index[t]]; index i32 or i64 [T], negative from the end.
Value take_rows(const Value& x, const Value& index);
/// A view of `x` [G, ..]: row t of `num_rows` is that of the group that t is in, as ends say;
/// behind the last end it is the last group's.
Value repeat_rows(const Value& x, const Value& ends, const Dim& num_rows);
/// [T, ..] as [num_rows, ..]: row index[t] is x[t]. Entries are distinct; what rows that none names
/// have is not said.
Value put_rows(const Value& x, const Value& index, const Dim& num_rows);

/// Any elementwise op of docs/epi.md by name, e.g. apply("gelu_erf", {x}).
Value apply(std::string_view op, const std::vector<Value>& operands);

Value operator+(const Value& a, const Value& b);  ///< a + b, broadcast as NumPy does
Value operator-(const Value& a, const Value& b);  ///< a - b
Value operator*(const Value& a, const Value& b);  ///< a * b, elementwise
Value operator/(const Value& a, const Value& b);  ///< a / b
Value operator-(const Value& a);                  ///< -a
Value operator+(const Value& a, double b);        ///< b as a float32 constant
Value operator-(const Value& a, double b);        ///< b as a float32 constant
Value operator*(const Value& a, double b);        ///< b as a float32 constant
Value operator/(const Value& a, double b);        ///< b as a float32 constant
Value operator+(double a, const Value& b);        ///< a as a float32 constant
Value operator-(double a, const Value& b);        ///< a as a float32 constant
Value operator*(double a, const Value& b);        ///< a as a float32 constant
Value operator/(double a, const Value& b);        ///< a as a float32 constant

Value min(const Value& a, const Value& b);              ///< the smaller; NaN if either is
Value max(const Value& a, const Value& b);              ///< the larger; NaN if either is
Value min(const Value& a, double b);                    ///< b as a float32 constant
Value max(const Value& a, double b);                    ///< b as a float32 constant
Value pow(const Value& a, const Value& b);              ///< a to the power of b
Value abs(const Value& x);                              ///< |x|
Value sqrt(const Value& x);                             ///< square root
Value rsqrt(const Value& x);                            ///< 1 / sqrt(x)
Value square(const Value& x);                           ///< x * x
Value exp(const Value& x);                              ///< e^x
Value log(const Value& x);                              ///< natural logarithm
Value exp2(const Value& x);                             ///< 2^x
Value log2(const Value& x);                             ///< logarithm to base 2
Value ceil(const Value& x);                             ///< the smallest integer not below x
Value floor(const Value& x);                            ///< the largest integer not above x
Value tanh(const Value& x);                             ///< hyperbolic tangent
Value erf(const Value& x);                              ///< error function
Value sigmoid(const Value& x);                          ///< 1 / (1 + e^-x)
Value silu(const Value& x);                             ///< x * sigmoid(x)
Value gelu_erf(const Value& x);                         ///< x / 2 * (1 + erf(x / sqrt 2))
Value gelu_tanh(const Value& x);                        ///< its tanh form: docs/epi.md
Value relu(const Value& x);                             ///< max(x, 0); NaN stays
Value leaky_relu(const Value& x, double slope = 0.01);  ///< x < 0 ? slope * x : x
Value softplus(const Value& x);                         ///< log(1 + e^x)
Value hardswish(const Value& x);                        ///< x * clamp(x + 3, 0, 6) / 6
Value clamp(const Value& x, double low, double high);   ///< within [low, high]; NaN stays
/// condition ? a : b, element by element; `condition` is a `bool` value such as lt(x, y).
Value select(const Value& condition, const Value& a, const Value& b);
Value lt(const Value& a, const Value& b);  ///< a < b, as `bool`
Value le(const Value& a, const Value& b);  ///< a <= b, as `bool`
Value gt(const Value& a, const Value& b);  ///< a > b, as `bool`
Value ge(const Value& a, const Value& b);  ///< a >= b, as `bool`
Value eq(const Value& a, const Value& b);  ///< a == b, as `bool`
Value ne(const Value& a, const Value& b);  ///< a != b, as `bool`

}  // namespace epifuse
