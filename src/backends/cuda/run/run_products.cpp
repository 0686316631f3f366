// The vendor's products of a run: what cannot be addressed is copied around them.
#include <algorithm>
#include <utility>

#include "backends/cuda/run/run_parts.h"

namespace epifuse::cuda {
namespace {

using codegen::BoundTensor;

// The matrix as a tensor of the batch dims it varies along (the others have size 1), rows, columns.
BoundTensor batched_tensor(const Product& product, const StridedMatrix& matrix,
                           std::int64_t BatchDim::*stride, std::int64_t rows, std::int64_t cols) {
  BoundTensor tensor;
  tensor.data = matrix.data;
  for (const BatchDim& dim : product.batch) {
    tensor.layout.shape.push_back(dim.*stride == 0 ? 1 : dim.size);
    tensor.layout.strides.push_back(dim.*stride);
  }
  for (std::int64_t size : {rows, cols}) tensor.layout.shape.push_back(size);
  for (std::int64_t step : {matrix.row_stride, matrix.col_stride}) {
    tensor.layout.strides.push_back(step);
  }
  return tensor;
}

// Its last two dims exchanged.
BoundTensor exchanged(BoundTensor tensor) {
  for (auto* of_dims : {&tensor.layout.shape, &tensor.layout.strides}) {
    std::swap(of_dims->back(), of_dims->end()[-2]);
  }
  return tensor;
}

// Points `matrix` and its batch strides at a tensor of the same shape.
void point_to(const BoundTensor& tensor, DType dtype, Product& product, StridedMatrix& matrix,
              std::int64_t BatchDim::*stride) {
  const std::size_t num_batch = product.batch.size();
  const std::vector<std::int64_t>& strides = tensor.layout.strides;
  matrix = {tensor.data, dtype, strides[num_batch], strides[num_batch + 1]};
  for (std::size_t i = 0; i < num_batch; ++i) {
    const bool varies = product.batch[i].*stride != 0;
    product.batch[i].*stride = varies ? strides[i] : 0;
  }
}

}  // namespace

// fp8 and i8 are multiplied as bf16, which holds every value of each, or as what the other operand
// is, where the vendor does not take them as they lie: so any layout is, and on any GPU.
void RunBuilder::pack(Product& product, StridedMatrix& matrix, std::int64_t BatchDim::*stride,
                      std::int64_t rows, std::int64_t cols) {
  const DType other = (&matrix == &product.a ? product.b : product.a).dtype;
  const DType wide = is_narrow(other) ? DType::bf16 : other;
  const DType given = matrix.dtype, dtype = is_narrow(given) ? wide : given;
  if (given == dtype && leading(matrix, rows, cols)) return;
  // The copy runs as the matrix does: to turn it takes many times as long.
  const bool is_column_major = matrix.row_stride == 1 && matrix.col_stride != 1;
  BoundTensor from = batched_tensor(product, matrix, stride, rows, cols);
  if (is_column_major) from = exchanged(from);
  const auto bytes = static_cast<std::size_t>(count(from.layout.shape)) * size_bytes(dtype);
  const BoundTensor to = dense(take(bytes), from.layout.shape);
  add_copy(from, given, to, dtype);
  point_to(is_column_major ? exchanged(to) : to, dtype, product, matrix, stride);
}

void RunBuilder::add_product(const plan::FusedGemm& step, bool allows_tf32) {
  Product product = simplify(product_of(step, bound_));
  product.tf32 = allows_tf32 && product.a.dtype == DType::f32;
  std::int64_t num_products = 1;
  for (const BatchDim& dim : product.batch) num_products *= dim.size;
  if (product.m * product.n * num_products == 0) return;

  const bool is_as_it_lies = late_.target().fp8_macs_per_clock > 0 && takes_eight_bits(product);
  if (product.k > 0 && !is_as_it_lies) {
    pack(product, product.a, &BatchDim::a_stride, product.m, product.k);
    pack(product, product.b, &BatchDim::b_stride, product.k, product.n);
  }
  const bool direct = is_as_it_lies || has_direct_result(product.a.dtype, product.d.dtype);
  const auto d_leading = leading(product.d, product.m, product.n);
  if (direct && d_leading && d_leading->row_major) {
    multiply(product);
    return;
  }
  const BoundTensor result =
      batched_tensor(product, product.d, &BatchDim::d_stride, product.m, product.n);
  const DType result_dtype = product.d.dtype, staged = direct ? result_dtype : DType::f32;
  const BoundTensor stage =
      dense(take(static_cast<std::size_t>(count(result.layout.shape)) * size_bytes(staged)),
            result.layout.shape);
  point_to(stage, staged, product, product.d, &BatchDim::d_stride);
  multiply(product);
  add_copy(stage, staged, result, result_dtype);
}

void RunBuilder::multiply(const Product& product) {
  if (product.k == 0) return clear(product);
  if (vendor_workspace_ == nullptr) vendor_workspace_ = take(kVendorWorkspaceBytes);
  if (context_ == nullptr) return;
  VendorGemm& gemm = context_->vendor();
  for (VendorCall& call : gemm.calls(product)) {
    actions_.emplace_back(VendorAction{&gemm, std::move(call), vendor_workspace_});
  }
}

// A sum of no products.
void RunBuilder::clear(const Product& product) {
  if (context_ == nullptr) return;
  const std::size_t bytes = size_bytes(product.d.dtype);
  std::vector<std::int64_t> offsets{0};
  for (const BatchDim& dim : product.batch) {
    std::vector<std::int64_t> finer;
    for (std::int64_t offset : offsets) {
      for (std::int64_t i = 0; i < dim.size; ++i) finer.push_back(offset + i * dim.d_stride);
    }
    offsets = std::move(finer);
  }
  for (std::int64_t offset : offsets) {
    const auto data = reinterpret_cast<jit::CuDevicePtr>(product.d.data) +
                      static_cast<std::size_t>(offset) * bytes;
    const auto width = static_cast<std::size_t>(product.n) * bytes;
    const auto stride = static_cast<std::size_t>(product.d.row_stride) * bytes;
    actions_.emplace_back(
        ClearAction{data, std::max(stride, width), width, static_cast<std::size_t>(product.m)});
  }
}

}  // namespace epifuse::cuda
