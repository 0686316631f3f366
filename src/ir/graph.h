// The graph IR: what the user asked for, in SSA form. Plain data.
//
// Semantics. A graph is a list of nodes in topological order; each has one value. Elementwise ops
// broadcast their operands as NumPy does (shapes aligned at the right, size 1 repeats). All
// arithmetic is in float32 (float64 in the reference); the result is then rounded to the value's
// dtype. With numerics `exact` every such rounding happens. With `fast` and `approx` a rounding of
// an intermediate value may be skipped while it stays in registers; what reaches memory is rounded,
// and a `cast` always rounds. Operands of an elementwise op share one dtype, except that a 0-d f32
// value goes with any float dtype and does not change it. A size symbol means the same number
// wherever it occurs. An input without strides is row-major: its last dim has stride 1 and the
// outer strides are taken from the tensor bound at run time.
//
// Groups. grouped_matmul multiplies rows of x by the matrix of their group. Of x [T, K], group g
// has the rows from ends[g-1] (0 for the first) to ends[g]; ends never fall and are at most T. Of
// x [G, M, K], it has the first counts[g] rows of x[g]. Rows of no group are not computed: what a
// result has there, and what is computed of it, is not said, and need not be written.
// k_grouped_matmul sums over groups: result [g] is the product of columns ends[g-1] to ends[g] of A
// [M, K] and those rows of B [K, N]; of a group without any it is zeros. repeat_rows
// gives each of T rows that of its group, rows behind the last end that of the last group.
// take_rows and put_rows go by any index: entries are rows, negative ones counted from the end,
// those of put_rows distinct; what it has in rows that the index does not name is not said.
// Integers of 32 and 64 bits are only inputs: they number rows.
//
// i8. Products of i8 are added up exactly, as integers; the sum is then rounded, to float32 first.
//
// Block scales. scaled_matmul multiplies fp8 operands whose elements have a scale for each block of
// 128 along K, the last one maybe shorter: of A [.., M, K] scales f32 [.., M, K / 128 rounded up];
// of B [.., K, N] scales [.., N, ..], or [.., N / 128 rounded up, ..] where 128 columns share one.
// The rows of scales are those of M and N whichever operand is transposed. Its value is the sum
// over blocks of (scale of A) (scale of B) (sum of products), the outer sum in float32.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "epifuse/dim.h"
#include "epifuse/dtype.h"
#include "ir/op.h"

namespace epifuse::ir {

using ValueId = std::int32_t;  // index into Graph::nodes

using Shape = std::vector<Dim>;

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<Dim> strides;  // of an input, in elements; empty: row-major (see above)
  bool operator==(const TensorType&) const = default;
};

struct SliceRange {
  Dim start, stop;
  std::int64_t step = 1;  // > 0
  bool operator==(const SliceRange&) const = default;
};

struct Node {
  Op op = Op::input;
  std::string name;  // an identifier, unique in the graph
  std::vector<ValueId> args;
  TensorType type;                                // of the result
  double value = 0;                               // constant
  bool transpose_a = false, transpose_b = false;  // products; grouped_matmul has the second
  bool promoted = false;           // a product of fp8: every 128 products of K are added in float32
  int block_rows = 1;              // block ops: kSquareRows of squares
  std::vector<int> permutation;    // transpose
  std::vector<SliceRange> ranges;  // slice, one per dim
  bool operator==(const Node&) const = default;
};

struct Output {
  std::string name;  // an identifier; outputs have distinct names
  ValueId value;
  bool operator==(const Output&) const = default;
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;
  std::vector<Output> outputs;

  const Node& operator[](ValueId id) const { return nodes[static_cast<std::size_t>(id)]; }
  bool operator==(const Graph&) const = default;
};

// The result type of `node` given its operands in `graph`; for reshape, broadcast, repeat_rows and
// put_rows node.type.shape, for cast and products node.type.dtype is what was asked for. Throws
// GraphError with what the op expects and what came (no position: the parser adds it).
TensorType infer_type(const Graph& graph, const Node& node);

// Elements of K that share a scale, and columns of the result where those do.
constexpr std::int64_t kScaleBlock = 128;
struct BlockScales {
  ValueId a = -1, b = -1;
  bool b_by_row = false;  // a scale of B for each column of the result, else for 128 of them
};
BlockScales block_scales(const Graph& graph, const Node& product);

// Products of i8 are added up as integers of 32 bits: so many never leave them.
constexpr std::int64_t kMostProductsOfI8 = (std::int64_t{1} << 17) - 1;
// Throws ArgumentError where a product of i8 has more with these sizes.
void check_integer_sums(const Graph& graph, const Node& product, const Sizes& sizes);

// Throws ArgumentError where a scaled product's scales are not as many as these sizes need.
void check_block_scales(const Graph& graph, const Node& product, const Sizes& sizes);

// The dtype of a product where none is asked for: that of its first operand, and f32 of narrow
// operands, since nothing computes with what they would give.
DType usual_result(DType operand);

// Appends a node: infers its type, makes its name unique ("t7" when empty). Throws GraphError.
ValueId append(Graph& graph, Node node);

// Throws InternalError when an invariant of this header does not hold.
void verify(const Graph& graph);

// The symbols of all sizes, sorted.
std::vector<std::string> size_symbols(const Graph& graph);

// Ids of the nodes that use each value, in order.
std::vector<std::vector<ValueId>> users(const Graph& graph);

bool is_identifier(std::string_view word);
// Turns any text into an identifier that is not a word of the language.
std::string sanitize(std::string_view text);

// Shape that elementwise operands of these shapes broadcast to; GraphError naming both if none.
Shape broadcast_shapes(const Shape& a, const Shape& b);

}  // namespace epifuse::ir
