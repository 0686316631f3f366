// Brings a bound matrix product into the form that a vendor GEMM can take.
#include "backends/cuda/run/product.h"

#include <algorithm>
#include <utility>

#include "base/ceil_div.h"
#include "base/check.h"

namespace epifuse::cuda {
namespace {

StridedMatrix matrix_of(const codegen::BoundTensor& tensor, DType dtype, bool transposed) {
  const ir::Layout& layout = tensor.layout;
  const std::size_t rank = layout.shape.size();
  EPIFUSE_CHECK(rank >= 2, "a matrix has two dims");
  StridedMatrix matrix;
  matrix.data = static_cast<char*>(tensor.data) +
                layout.offset * static_cast<std::int64_t>(size_bytes(dtype));
  matrix.dtype = dtype;
  matrix.row_stride = layout.strides[rank - 2];
  matrix.col_stride = layout.strides[rank - 1];
  if (transposed) std::swap(matrix.row_stride, matrix.col_stride);
  return matrix;
}

// Stride along the dim `from_end` dims before the last two; 0 where the operand repeats.
std::int64_t batch_stride(const ir::Layout& layout, std::size_t from_end) {
  const std::size_t rank = layout.shape.size();
  if (from_end + 2 >= rank) return 0;
  const std::size_t dim = rank - 3 - from_end;
  return layout.shape[dim] == 1 ? 0 : layout.strides[dim];
}

// x[i, r, ..] is x[i * rows + r, ..] for A and D, and B does not vary with i.
bool becomes_rows(const Product& p, const BatchDim& dim) {
  if (dim.b_stride != 0) return false;
  return p.m == 1 || (dim.a_stride == p.m * p.a.row_stride && dim.d_stride == p.m * p.d.row_stride);
}

void fold_into_rows(Product& p) {
  while (!p.batch.empty() && becomes_rows(p, p.batch.back())) {
    const BatchDim dim = p.batch.back();
    if (p.m == 1) {
      p.a.row_stride = dim.a_stride;
      p.d.row_stride = dim.d_stride;
    }
    p.m *= dim.size;
    p.batch.pop_back();
  }
}

bool walk_jointly(const BatchDim& outer, const BatchDim& inner) {
  return outer.a_stride == inner.size * inner.a_stride &&
         outer.b_stride == inner.size * inner.b_stride &&
         outer.d_stride == inner.size * inner.d_stride;
}

}  // namespace

Product product_of(const plan::FusedGemm& step, const codegen::Bound& bound) {
  const plan::GemmDesc& gemm = step.gemm;
  EPIFUSE_CHECK(step.epilogue.stores.size() == 1, "a bare product has one store");
  const plan::Store& store = step.epilogue.stores.front();
  const auto tensor = [&](ir::ValueId value) -> const codegen::BoundTensor& {
    return bound.tensors[static_cast<std::size_t>(value)];
  };
  const ir::Layout& a = tensor(gemm.a.value).layout;
  const ir::Layout& b = tensor(gemm.b.value).layout;
  const ir::Layout& d = tensor(store.value).layout;

  Product p;
  p.a = matrix_of(tensor(gemm.a.value), gemm.a.dtype, gemm.a.transposed);
  p.b = matrix_of(tensor(gemm.b.value), gemm.b.dtype, gemm.b.transposed);
  p.d = matrix_of(tensor(store.value), store.dtype, false);
  p.m = d.shape[d.shape.size() - 2];
  p.n = d.shape.back();
  p.k = gemm.k.eval(bound.sizes);
  p.promoted = gemm.promoted;
  for (std::size_t from_end = d.shape.size() - 2; from_end-- > 0;) {
    BatchDim dim;
    dim.size = d.shape[d.shape.size() - 3 - from_end];
    dim.a_stride = batch_stride(a, from_end);
    dim.b_stride = batch_stride(b, from_end);
    dim.d_stride = batch_stride(d, from_end);
    p.batch.push_back(dim);
  }
  return p;
}

Product simplify(Product p) {
  std::erase_if(p.batch, [](const BatchDim& dim) { return dim.size == 1; });
  fold_into_rows(p);
  for (std::size_t i = p.batch.size(); i-- > 1;) {
    if (!walk_jointly(p.batch[i - 1], p.batch[i])) continue;
    p.batch[i].size *= p.batch[i - 1].size;
    p.batch.erase(p.batch.begin() + static_cast<std::ptrdiff_t>(i) - 1);
  }
  if (p.d.col_stride != 1 && p.n != 1 && (p.d.row_stride == 1 || p.m == 1)) {
    std::swap(p.m, p.n);
    std::swap(p.a, p.b);
    for (StridedMatrix* matrix : {&p.a, &p.b, &p.d}) {
      std::swap(matrix->row_stride, matrix->col_stride);
    }
    for (BatchDim& dim : p.batch) std::swap(dim.a_stride, dim.b_stride);
  }
  return p;
}

std::optional<Leading> leading(const StridedMatrix& matrix, std::int64_t rows, std::int64_t cols) {
  if ((matrix.col_stride == 1 || cols == 1) && (matrix.row_stride >= cols || rows == 1)) {
    return Leading{true, rows == 1 ? std::max<std::int64_t>(cols, 1) : matrix.row_stride};
  }
  if ((matrix.row_stride == 1 || rows == 1) && (matrix.col_stride >= rows || cols == 1)) {
    return Leading{false, cols == 1 ? std::max<std::int64_t>(rows, 1) : matrix.col_stride};
  }
  return std::nullopt;
}

std::int64_t num_elements(const Product& product, std::int64_t rows, std::int64_t cols,
                          std::int64_t BatchDim::*stride) {
  std::int64_t count = rows * cols;
  for (const BatchDim& dim : product.batch) count *= dim.*stride == 0 ? 1 : dim.size;
  return count;
}

Product padded(Product p) {
  constexpr std::int64_t kBoundaryBytes = 16;
  const auto up = [&](std::int64_t size) {
    const auto unit = kBoundaryBytes / static_cast<std::int64_t>(size_bytes(p.a.dtype));
    return round_up(size, unit);
  };
  const auto a = leading(p.a, p.m, p.k), b = leading(p.b, p.k, p.n);
  EPIFUSE_CHECK(a && b, "what is padded can be addressed");
  if (a->row_major || !b->row_major) p.k = up(p.k);
  if (!a->row_major) p.m = up(p.m);
  p.n = up(p.n);
  const auto lie_dense = [](StridedMatrix& matrix, bool row_major, std::int64_t rows,
                            std::int64_t cols) {
    matrix.row_stride = row_major ? cols : 1;
    matrix.col_stride = row_major ? 1 : rows;
  };
  lie_dense(p.a, a->row_major, p.m, p.k);
  lie_dense(p.b, b->row_major, p.k, p.n);
  lie_dense(p.d, true, p.m, p.n);
  std::int64_t of_a = p.m * p.k, of_b = p.k * p.n, of_d = p.m * p.n;
  for (auto dim = p.batch.rbegin(); dim != p.batch.rend(); ++dim) {
    const auto step = [&](std::int64_t& stride, std::int64_t& inner) {
      if (stride == 0) return;
      stride = inner;
      inner *= dim->size;
    };
    step(dim->a_stride, of_a);
    step(dim->b_stride, of_b);
    step(dim->d_stride, of_d);
  }
  return p;
}

bool has_direct_result(DType operand, DType result) {
  return result == operand || result == DType::f32;
}

bool takes_eight_bits(const Product& p) {
  constexpr std::int64_t kUnit = 16;  // bytes; cuBLASLt also wants so many of all sizes but m
  const auto a = leading(p.a, p.m, p.k), b = leading(p.b, p.k, p.n), d = leading(p.d, p.m, p.n);
  const bool is_e4m3 = p.a.dtype == DType::e4m3 && p.b.dtype == DType::e4m3;
  const bool is_along_k = a && b && d && a->row_major && !b->row_major && d->row_major;
  if (!is_e4m3 || !is_along_k || is_fp8(p.d.dtype) || p.k == 0) return false;
  const auto result_bytes = static_cast<std::int64_t>(size_bytes(p.d.dtype));
  std::vector<std::int64_t> units{p.n, p.k, a->stride, b->stride, d->stride * result_bytes};
  for (const BatchDim& dim : p.batch) {
    units.insert(units.end(), {dim.a_stride, dim.b_stride, dim.d_stride * result_bytes});
  }
  for (const void* data : {p.a.data, p.b.data, p.d.data}) {
    units.push_back(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data) % kUnit));
  }
  return std::ranges::all_of(units, [](std::int64_t unit) { return unit % kUnit == 0; });
}

}  // namespace epifuse::cuda
