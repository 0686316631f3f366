// Parameter blocks of the generated kernels: the one header that host and device share.
#pragma once

namespace epifuse::abi {

// Upper bounds of what one epilogue may use; the fusion pass cuts a region that needs more.
constexpr int kMaxTiles = 4;    // full-size loads of a GEMM epilogue
constexpr int kMaxStores = 4;   // full-size stores of a GEMM epilogue
constexpr int kMaxVectors = 4;  // row loads, and as many column loads
constexpr int kMaxScalars = 8;  // scalar loads, and as many parameters
constexpr int kMaxTailLoads = 12;
constexpr int kMaxTailStores = 4;
constexpr int kMaxRank = 6;

// Integers in memory: data[i * stride]. An index names rows of the `num_rows` there are; of groups
// of rows, of which there are `num_rows`, they are the ends, or how many rows each has.
struct Integers {
  const void* data;
  long long stride;
  int num_rows;
  int is_wide;  // of 8 bytes, else of 4
};

struct alignas(64) TensorMap {  // a CUtensorMap
  unsigned char bytes[128];
};

// Strides in elements along the batch dims of a product: the outer and the inner one.
struct BatchStrides {
  long long outer, inner;
};

struct Vector {  // x[b, i] = data[i * stride + b * batch]
  const void* data;
  long long stride;
  BatchStrides batch;
};

struct Matrix {  // x[b, m, n] = data[m * row_stride + n * col_stride + b * batch]
  void* data;
  long long row_stride, col_stride;
  BatchStrides batch;
};

struct Partials {  // of part p: data[p * stride + i + b * batch], i a row or a column
  float* data;
  long long stride;
  BatchStrides batch;
};

// Of an operand, a scale for each 128 elements along K, block i of them: row r of the operand has
// data[(first + r * step >> shift) * row_stride + i * block_stride + b * batch].
struct BlockScales {
  const float* data;
  long long row_stride, block_stride;
  BatchStrides batch;
  int first, step, shift;
  int blocks;  // of K
};

// The maps of the i-th full-size store, of the i-th full-size load, and of that store in narrower
// boxes: of the last columns of tiles.
struct FullSizeMaps {
  TensorMap store, load, cut_store;
};
constexpr int kMaxFullSize = kMaxTiles > kMaxStores ? kMaxTiles : kMaxStores;

// D[b, m, n] = A[b, m, k] * B[b, n, k]^T and its epilogue; where it is gated, a second product of A
// beside it. Arrays are in the order of the epilogue's loads of that access, and of its stores.
// Maps of a batched product have two dims more, the inner and the outer batch dim.
struct GemmParams {
  TensorMap a, b;
  int m, n, k;
  int first_k;             // where the sums start: 0, or past the end of K for a sum of nothing
  int raster;              // tiles along m that are walked together, for reuse in L2
  int columns;             // of tiles, where they have two widths
  int batch, batch_inner;  // products, and how many the inner batch dim has
  // Bits 2 i and 2 i + 1: whether the i-th of a, b, second_b, tiles, stores varies along the inner,
  // the outer batch dim.
  unsigned batched;
  int lets_next_start;  // whether the kernel after this one may set itself up early
  int a_bytes;          // that come to a stage of A: of all rows of a tile, or of the few there are
  int least_rows;       // of a group's last tile that is a whole one: 65, or 1 without short tiles
  float parameters[kMaxScalars];
  Vector rows[kMaxVectors];
  Vector cols[kMaxVectors];
  // In boxes of fewer rows: of b 8 less, where tiles have two widths; of a 64, where groups may end
  // in short tiles.
  TensorMap fewer_rows;
  TensorMap second_b;  // of a gated product
  FullSizeMaps full[kMaxFullSize];
  Vector scalars[kMaxScalars];        // without a stride
  Partials partials[kMaxStores];      // of row reductions, then of column reductions
  Matrix plain_tiles[kMaxTiles];      // of loads by hand
  Matrix non_tma_stores[kMaxStores];  // of stores by hand
  Integers groups;                    // of a grouped product
  Matrix gathered_a;                  // where its rows are looked up
  Integers rows_of_a;
  Integers rows_of_cols[kMaxVectors];
  Integers rows_of_tiles[kMaxTiles];
  Integers rows_of_stores[kMaxStores];  // where rows are put
  BlockScales a_scales, b_scales, second_b_scales;
};
constexpr int kSecondB = 2, kFirstTile = 3,
              kFirstStore = kFirstTile + kMaxTiles;  // in GemmParams::batched

// Where the CTAs that share a tile's K leave their sums, and how many of each tile have done so.
struct SplitSums {
  void* data;
  int* arrivals;  // zeros before the launch
};

// Of kernels that copy operands by cp.async: these, beside what they use of `gemm`.
struct CopiedGemmParams {
  Matrix a, b, second_b;  // a[m, k], b[n, k]
  SplitSums split;
  GemmParams gemm;
};

constexpr int kRowClasses = 8;  // rows 8 apart are a multiple of 16 bytes apart

constexpr int kStagedRowBytes = 144;  // of a box of such rows: 128, and what precedes a row
constexpr int kStagings = 2;          // loaded ahead of the stages
constexpr int kNarrowStagings = 4;    // the same, of elements of 8 bits that are widened

// An operand whose rows start off 16-byte boundaries. Its rows j, j + 8, .. are a matrix with a map
// of its own; row i of it starts 2 (shifts >> 4 j & 7) bytes into row i of the map, as boxes start
// at 16-byte boundaries only.
struct MisalignedOperand {
  TensorMap classes[kRowClasses];
  unsigned shifts;
};

// Of kernels with such operands: `a` or `b` stands for the map of that name in `gemm`.
struct MisalignedGemmParams {
  GemmParams gemm;
  MisalignedOperand a, b;
};

// A product of few rows and its epilogue, all of it at any strides.
struct FewRowsParams {
  int m, n, k, batch_inner;
  Matrix a, b, second_b;  // a[m, k], b[n, k]
  float parameters[kMaxScalars];
  Vector rows[kMaxVectors], cols[kMaxVectors], scalars[kMaxScalars];
  Matrix tiles[kMaxTiles], stores[kMaxStores];
};

// Several of them in one launch, which have an epilogue in common: part i has the CTAs before
// ends[i] that no earlier one has. The block is within the 4096 bytes that every driver takes.
constexpr int kMostSideBySide = 4;
struct FewRowsSideBySideParams {
  FewRowsParams parts[kMostSideBySide];
  int ends[kMostSideBySide];
};
static_assert(sizeof(FewRowsSideBySideParams) <= 4096);

// The same of products by tiles: part i has those before ends[i] that no earlier one has. A, m and
// k are those of all parts, and so is what is the kernel's and not a product's.
struct GemmSideBySideParams {
  GemmParams parts[kMostSideBySide];
  int ends[kMostSideBySide];
};

struct Strided {  // x[i..] = data[sum of i[d] * strides[d]], strides in elements
  void* data;
  long long strides[kMaxRank];
};

constexpr int kTailThreads = 256;  // of every block of a tail kernel

// Elementwise work over sizes[0] x .. x sizes[kMaxRank - 1], of which the leading ones may be 1;
// reductions run over one of the last two dims.
struct TailParams {
  long long sizes[kMaxRank];
  Strided loads[kMaxTailLoads];  // rows, columns, tiles, scalars; parameters have no entry
  Strided stores[kMaxTailStores];
  float parameters[kMaxScalars];
  unsigned vector_loads;   // bit i: loads[i] can be read in whole vectors along the last dim
  unsigned vector_stores;  // bit i: stores[i] can be written so
  int inner_blocks;        // blocks that share the work on one index of the leading dims
  int lanes;               // of a reduction: threads side by side along the last dim
};

constexpr int kTransposeThreads = 256;  // of every block of kernels/common/transpose.cuh
constexpr int kTransposeTile = 128;     // rows and columns that it takes at a time

// Matrices of bytes: to[b, j, i] = from[b, i, j], i < rows, j < cols. Rows of `from` are contiguous
// along j. Those of `to` are along i, begin at multiples of 16 bytes and have zeros up to the next
// one. Strides are in bytes.
struct TransposeParams {
  const void* from;
  void* to;
  long long rows, cols, from_stride, to_stride;
  long long from_batch[kMaxRank - 2], to_batch[kMaxRank - 2];
  int batch[kMaxRank - 2];
  int row_tiles, col_tiles;  // of each matrix
  int unit;                  // bytes that rows of `from` are read by: 16, 4 or 1
};

constexpr int kMaxProblemTensors = 24;  // inputs and outputs of a graph of many problems
constexpr int kMaxProblemSizes = 16;    // and its size symbols
constexpr int kDescribeThreads = 32;    // of every block of kernels/common/pointer_arrays.cuh
constexpr int kByHandThreads = 256;  // of every block of kernels/common/pointer_arrays_by_hand.cuh

// A problem as kernels/common/pointer_arrays_by_hand.cuh takes it: a[m, k], b[n, k] and the
// full-size operands, at any strides; vectors and scalars are those of the problem's GemmParams.
struct ByHand {
  long long m, n, k;
  Matrix a, b, second_b;
  Matrix tiles[kMaxTiles];
  Matrix stores[kMaxStores];
};

// One of many problems, each with sizes and tensors of its own: written by
// kernels/common/pointer_arrays.cuh. `product` is as of a launch of its own; kernels that take
// operands by tensor maps read its `gemm` alone.
struct Problem {
  CopiedGemmParams product;
  ByHand by_hand;
};

// How a problem is done: by tiles of a family's GEMM, or by hand. Beside the descriptions, as all
// CTAs go through these.
struct ProblemTiles {
  int tiles, is_by_hand;
};

// Where problems are described.
struct ProblemList {
  const Problem* problems;
  const ProblemTiles* tiles;
  int count;
};

// Of a GEMM on many problems: what is the same for all, and where each is described.
struct PointerArrayGemmParams {
  GemmParams usual;
  const Problem* problems;
  const ProblemTiles* tiles;
  int count;
};

// Where a tensor of every problem is, and how far apart its rows are; null: dense.
struct ProblemTensor {
  const void* const* data;
  const long long* row_strides;
};

// What kernels/common/pointer_arrays.cuh makes the descriptions of; `usual` has the maps' boxes.
struct DescribeParams {
  GemmParams usual;
  Problem* problems;
  ProblemTiles* tiles;
  int tile_rows, tile_columns;  // of results
  const long long* sizes;  // a problem's side by side, in columns that the caller has in any order
  int num_sizes, size_columns[kMaxProblemSizes];
  ProblemTensor tensors[kMaxProblemTensors];
};

struct ByHandParams {
  const Problem* problems;
  const ProblemTiles* tiles;
  int count;
  float parameters[kMaxScalars];
};

constexpr int kGroupedThreads = 256;  // of every block of kernels/common/grouped.cuh

// d[g, m, n] = sum over k of a[g, m, k] * b[g, k, n], group g being the inner batch dim. Rows m are
// those of all groups, one group behind the other, or where padded those of each group's own.
struct GroupedParams {
  Matrix a, b, d;
  long long m, n, k;
  Integers groups;
  Integers rows_of_a;  // where looks_up
  int is_padded, looks_up;
};

// What number i along a dim of an operand stands for.
enum class LookupKind : int {
  none,     // itself
  index,    // the row that an index names
  ends,     // the group that row i belongs to
  put_rows  // the row that an index names, where it may name one that is not there
};
struct Lookup {
  Integers integers;
  LookupKind kind;
  int dim;  // of TailParams::sizes
};

// Of tails some of whose operands have rows that are looked up.
struct LookupTailParams {
  TailParams tail;
  Lookup loads[kMaxTailLoads], stores[kMaxTailStores];
};

}  // namespace epifuse::abi
