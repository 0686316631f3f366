// The product of a step as a framework asks the vendor for it.
#include "backends/cuda/choose/framework_products.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "backends/backend.h"
#include "backends/cuda/run/run_parts.h"
#include "base/strided.h"
#include "tune/unfused.h"

namespace epifuse::cuda {
namespace {

// What PyTorch gives cuBLASLt for addmm: too little for partial sums of many rows.
constexpr std::size_t kWorkspaceOfAddmm = std::size_t{1} << 20;

// With what the product itself adds.
struct Asked {
  Product product;
  VendorEpilogue epilogue;
};

// The memory of the first float32 that an epilogue reads so, where at least `count` lie: which of
// them, and what they are, does not matter here. Null where there is none.
const void* scales(const plan::Plan& plan, const plan::FusedGemm& step, const codegen::Bound& bound,
                   plan::Access access, std::int64_t count) {
  for (const plan::Load& load : step.epilogue.loads) {
    if (load.access != access || load.dtype != DType::f32) continue;
    const auto stored = static_cast<std::size_t>(ir::storage(plan.graph, load.value));
    const codegen::BoundTensor& tensor = bound.tensors[stored];
    const auto reach = checked_reach(tensor.layout.shape, tensor.layout.strides);
    if (reach && reach->last + 1 >= count) return tensor.data;
  }
  return nullptr;
}

// A framework multiplies 8-bit floats by the vendor's product, in bf16, with one scale a tensor or,
// where an epilogue reads a column of them, with one a row.
bool has_scales_of_rows(const plan::FusedGemm& step) {
  return std::ranges::any_of(step.epilogue.loads, [](const plan::Load& load) {
    return load.access == plan::Access::col && load.dtype == DType::f32;
  });
}

// Without memory for its result. Empty where no vendor takes it as it is, and where it reads what
// another step leaves: a framework's product is asked for in the place of the whole plan.
std::optional<Asked> product_as_asked(const Prepared& prepared, std::size_t index,
                                      codegen::Bound bound) {
  const plan::Plan& plan = prepared.plan;
  const auto& step = std::get<plan::FusedGemm>(plan.steps[index]);
  const bool is_one = step.gemm.gating != plan::Gating::separate && !step.gemm.has_groups();
  const bool is_fp8_product = is_fp8(step.gemm.a.dtype) && !step.gemm.is_scaled();
  const bool is_16_bit = size_bytes(step.gemm.a.dtype) == 2 && size_bytes(step.gemm.b.dtype) == 2;
  if (!is_one || !(is_16_bit || is_fp8_product)) return std::nullopt;
  plan::FusedGemm bare = plan::is_bare(step) ? step : plan::split(plan, step).gemms.front();
  plan::Store& store = bare.epilogue.stores.front();
  store.dtype = tune::framework_dtype(step.gemm);
  for (const ir::ValueId id : bare.gemm.operands()) {
    if (bound.tensors[static_cast<std::size_t>(ir::storage(plan.graph, id))].data == nullptr) {
      return std::nullopt;
    }
    backends::resolve_view(plan.graph, id, bound);
  }
  bound.tensors[static_cast<std::size_t>(store.value)] =
      dense(nullptr, ir::eval(plan.graph[store.value].type.shape, bound.sizes));
  Product product = simplify(product_of(bare, bound));
  product.rounds_partial_sums = true;
  const bool is_empty = product.m * product.n * product.k == 0;
  if (is_empty || product.batch.size() > 1 || !leading(product.a, product.m, product.k) ||
      !leading(product.b, product.k, product.n) || (is_fp8_product && !takes_eight_bits(product))) {
    return std::nullopt;
  }
  Asked asked{std::move(product), {}};
  if (is_fp8_product && has_scales_of_rows(step)) {
    asked.epilogue.a_scales = scales(plan, step, bound, plan::Access::col, asked.product.m);
    asked.epilogue.b_scales = scales(plan, step, bound, plan::Access::row, asked.product.n);
    if (!asked.epilogue.a_scales || !asked.epilogue.b_scales) return std::nullopt;
  }
  if (const plan::Load* row = tune::row_of_product(step)) {
    backends::resolve_view(plan.graph, row->value, bound);
    const codegen::BoundTensor& tensor = bound[row->value];
    asked.epilogue.workspace_bytes = kWorkspaceOfAddmm;
    asked.epilogue.bias = static_cast<const char*>(tensor.data) +
                          tensor.layout.offset * static_cast<std::int64_t>(size_bytes(row->dtype));
  }
  return asked;
}

std::size_t bytes_of(const Product& p, std::int64_t rows, std::int64_t cols,
                     std::int64_t BatchDim::*stride) {
  return static_cast<std::size_t>(num_elements(p, rows, cols, stride)) * size_bytes(p.a.dtype);
}
std::size_t bytes_of_a(const Product& p) { return bytes_of(p, p.m, p.k, &BatchDim::a_stride); }
std::size_t bytes_of_b(const Product& p) { return bytes_of(p, p.k, p.n, &BatchDim::b_stride); }
std::size_t bytes_of_d(const Product& p) {
  return static_cast<std::size_t>(num_elements(p, p.m, p.n, &BatchDim::d_stride)) *
         size_bytes(p.d.dtype);
}

bool is_same_size(const Product& a, const Product& b) {
  return a.m == b.m && a.n == b.n && a.k == b.k;
}

}  // namespace

std::size_t framework_bytes(const Prepared& prepared, std::size_t step,
                            const codegen::Bound& bound) {
  const auto asked = product_as_asked(prepared, step, bound);
  if (!asked) return 0;
  const Product other = padded(asked->product);
  return bytes_of_d(other) +
         (is_same_size(other, asked->product) ? 0 : bytes_of_a(other) + bytes_of_b(other));
}

FrameworkProducts::FrameworkProducts(const Prepared& prepared, std::size_t step, Context& context,
                                     const codegen::Bound& bound, void* workspace,
                                     jit::CuStream stream)
    : context_(context), workspace_(workspace), stream_(stream) {
  auto asked = product_as_asked(prepared, step, bound);
  if (!asked) return;
  Product* const product = &asked->product;
  Product other = padded(*product);
  buffers_.emplace_back(context.shared_device(), bytes_of_d(other));
  product->d.data = other.d.data = buffers_.back().data();
  add(*product, asked->epilogue, {});
  if (is_same_size(other, *product)) return;
  std::vector<Copy> copies;
  if (other.m != product->m || other.k != product->k) {
    copies.push_back(copy_to_pad(other.a, bytes_of_a(other), bytes_of_a(*product)));
  } else {
    other.a = product->a;
    for (std::size_t i = 0; i < other.batch.size(); ++i) {
      other.batch[i].a_stride = product->batch[i].a_stride;
    }
  }
  if (other.k != product->k || other.n != product->n) {
    copies.push_back(copy_to_pad(other.b, bytes_of_b(other), bytes_of_b(*product)));
  } else {
    other.b = product->b;
    for (std::size_t i = 0; i < other.batch.size(); ++i) {
      other.batch[i].b_stride = product->batch[i].b_stride;
    }
  }
  if (const targets::KnownDevice* known = context.profile().known) {
    const targets::DeviceRates& rates = known->measured->rates;
    for (const Copy& copy : copies) {
      copies_us_ += targets::pass_us(2 * static_cast<double>(copy.bytes), rates);
    }
    copies.clear();
  }
  if (other.n != product->n) asked->epilogue.bias = nullptr;  // it ends before the last column
  add(other, asked->epilogue, std::move(copies));
}

// What it holds beside the copy does not matter, but that it is numbers like those that are there:
// of zeros a product takes less time.
FrameworkProducts::Copy FrameworkProducts::copy_to_pad(StridedMatrix& matrix, std::size_t bytes,
                                                       std::size_t readable) {
  const auto from = reinterpret_cast<jit::CuDevicePtr>(matrix.data);
  const DeviceBuffer& buffer = buffers_.emplace_back(context_.shared_device(), bytes);
  matrix.data = buffer.data();
  const Device& device = context_.device();
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t next = std::min(bytes - done, readable);
    device.check(
        device.api().memcpy_device_to_device_async(buffer.pointer() + done, from, next, stream_),
        "cuMemcpyDtoDAsync");
    done += next;
  }
  return {buffer.pointer(), from, std::min(bytes, readable)};
}

void FrameworkProducts::add(const Product& product, const VendorEpilogue& epilogue,
                            std::vector<Copy> copies) {
  VendorGemm& gemm = context_.vendor();
  runs_.emplace_back(
      [this, &gemm, calls = gemm.calls(product, epilogue), copies = std::move(copies)] {
        const Device& device = context_.device();
        for (const Copy& copy : copies) {
          device.check(
              device.api().memcpy_device_to_device_async(copy.to, copy.from, copy.bytes, stream_),
              "cuMemcpyDtoDAsync");
        }
        for (const VendorCall& call : calls) gemm.run(call, workspace_, stream_);
      });
}

}  // namespace epifuse::cuda
