// Runs matrix products with cuBLASLt.
#include "backends/cuda/vendor/vendor_gemm.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/driver/memory.h"
#include "epifuse/error.h"

namespace epifuse::cuda {
namespace {

constexpr int kMostAlignment = 256;

LtDataType lt_type(DType dtype) {
  switch (dtype) {
    case DType::bf16: return LtDataType::bf16;
    case DType::f16: return LtDataType::f16;
    case DType::f32: return LtDataType::f32;
    case DType::e4m3: return LtDataType::e4m3;
    case DType::e5m2: return LtDataType::e5m2;
    default: throw InternalError(fmt::format("no vendor GEMM of {} elements", name(dtype)));
  }
}

int alignment(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const auto lowest_bit = static_cast<std::uintptr_t>(address & (~address + 1));
  return address == 0 ? kMostAlignment
                      : static_cast<int>(std::min<std::uintptr_t>(lowest_bit, kMostAlignment));
}

const void* offset(const StridedMatrix& matrix, std::int64_t elements) {
  return static_cast<const char*>(matrix.data) +
         elements * static_cast<std::int64_t>(size_bytes(matrix.dtype));
}

std::string shape_text(const VendorProblem& p) {
  return fmt::format("{} x {} x {} in {} -> {}", p.m, p.n, p.k, name(p.operand), name(p.result));
}

}  // namespace

// cuBLASLt is column-major, so it computes D^T = B^T * A^T: its first operand is our B.
struct VendorKernel {
  VendorKernel(std::shared_ptr<const LtApi> api_, const VendorProblem& problem_)
      : api(std::move(api_)), problem(problem_) {}
  ~VendorKernel() {
    if (desc != nullptr) api->desc_destroy(desc);
    for (LtMatrixLayout layout : {a, b, d}) {
      if (layout != nullptr) api->layout_destroy(layout);
    }
  }
  VendorKernel(const VendorKernel&) = delete;
  VendorKernel& operator=(const VendorKernel&) = delete;

  std::shared_ptr<const LtApi> api;
  VendorProblem problem;
  LtMatmulDesc desc = nullptr;
  LtMatrixLayout a = nullptr, b = nullptr, d = nullptr;
  LtAlgorithm algorithm{};
};

namespace {

void describe_epilogue(VendorKernel& kernel) {
  const LtApi& api = *kernel.api;
  const VendorEpilogue& wanted = kernel.problem.epilogue;
  const auto set = [&](LtDescAttribute attribute, const auto& value) {
    check(api, api.desc_set(kernel.desc, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  };
  std::uint32_t flags = 0;
  if (wanted.activation == VendorEpilogue::Activation::relu) flags |= kLtRelu;
  if (wanted.activation == VendorEpilogue::Activation::gelu_tanh) flags |= kLtGelu;
  if (wanted.bias != nullptr) {
    flags |= kLtBias;
    set(LtDescAttribute::bias_pointer, wanted.bias);
    set(LtDescAttribute::bias_type, lt_type(kernel.problem.result));
  }
  if (wanted.preact != nullptr) {
    flags |= kLtAux;
    set(LtDescAttribute::aux_pointer, wanted.preact);
    set(LtDescAttribute::aux_leading, kernel.problem.d_stride);
  }
  if (flags != 0) set(LtDescAttribute::epilogue, flags);
  if (wanted.a_scales == nullptr) return;
  set(LtDescAttribute::a_scale_mode, kLtScaleOfRows);
  set(LtDescAttribute::b_scale_mode, kLtScaleOfRows);
  set(LtDescAttribute::a_scale_pointer, wanted.b_scales);
  set(LtDescAttribute::b_scale_pointer, wanted.a_scales);
}

void describe(VendorKernel& kernel) {
  const LtApi& api = *kernel.api;
  const VendorProblem& p = kernel.problem;
  const LtComputeType compute = p.tf32 ? LtComputeType::f32_fast_tf32 : LtComputeType::f32;
  check(api, api.desc_create(&kernel.desc, compute, LtDataType::f32), "cublasLtMatmulDescCreate");
  const auto set_transpose = [&](LtDescAttribute attribute, bool transpose) {
    const LtOperation operation = transpose ? LtOperation::transpose : LtOperation::none;
    check(api, api.desc_set(kernel.desc, attribute, &operation, sizeof operation),
          "cublasLtMatmulDescSetAttribute");
  };
  set_transpose(LtDescAttribute::transpose_a, !p.b.row_major);
  set_transpose(LtDescAttribute::transpose_b, !p.a.row_major);
  if (is_fp8(p.operand)) {
    const std::int8_t fast = p.promoted ? 0 : 1;
    check(api, api.desc_set(kernel.desc, LtDescAttribute::fast_accumulation, &fast, sizeof fast),
          "cublasLtMatmulDescSetAttribute");
  }
  describe_epilogue(kernel);

  // A row-major matrix of rows x cols is a column-major one of cols x rows.
  const auto make_layout = [&](LtMatrixLayout& layout, DType dtype, std::int64_t rows,
                               std::int64_t cols, const Leading& lead, std::int64_t batch_stride) {
    if (!lead.row_major) std::swap(rows, cols);
    check(api,
          api.layout_create(&layout, lt_type(dtype), static_cast<std::uint64_t>(cols),
                            static_cast<std::uint64_t>(rows), lead.stride),
          "cublasLtMatrixLayoutCreate");
    const auto count = static_cast<std::int32_t>(p.batch.size);
    check(api, api.layout_set(layout, LtLayoutAttribute::batch_count, &count, sizeof count),
          "cublasLtMatrixLayoutSetAttribute");
    check(
        api,
        api.layout_set(layout, LtLayoutAttribute::batch_stride, &batch_stride, sizeof batch_stride),
        "cublasLtMatrixLayoutSetAttribute");
  };
  make_layout(kernel.a, p.operand, p.m, p.k, p.a, p.batch.a_stride);
  make_layout(kernel.b, p.operand, p.k, p.n, p.b, p.batch.b_stride);
  make_layout(kernel.d, p.result, p.m, p.n, Leading{true, p.d_stride}, p.batch.d_stride);
}

void choose_algorithm(VendorKernel& kernel, LtHandle handle) {
  const LtApi& api = *kernel.api;
  const VendorProblem& p = kernel.problem;
  LtPreference preference = nullptr;
  check(api, api.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  const std::unique_ptr<LtPreferenceTag, LtStatus (*)(LtPreference)> owner(preference,
                                                                           api.preference_destroy);
  const auto set = [&](LtPreferenceAttribute attribute, const auto& value) {
    check(api, api.preference_set(preference, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  const std::uint64_t workspace_bytes = p.epilogue.workspace_bytes;
  set(LtPreferenceAttribute::max_workspace_bytes, workspace_bytes);
  // Split-K may add partial sums in the result's dtype, which would round every one of them.
  constexpr std::uint32_t kInFloat32 = 2, kAny = 7;
  set(LtPreferenceAttribute::reduction_scheme_mask, p.rounds_partial_sums ? kAny : kInFloat32);
  set(LtPreferenceAttribute::min_alignment_a_bytes, static_cast<std::uint32_t>(p.b_alignment));
  set(LtPreferenceAttribute::min_alignment_b_bytes, static_cast<std::uint32_t>(p.a_alignment));
  set(LtPreferenceAttribute::min_alignment_c_bytes, static_cast<std::uint32_t>(p.d_alignment));
  set(LtPreferenceAttribute::min_alignment_d_bytes, static_cast<std::uint32_t>(p.d_alignment));
  LtHeuristicResult result{};
  int num_results = 0;
  const LtStatus status = api.heuristic(handle, kernel.desc, kernel.b, kernel.a, kernel.d, kernel.d,
                                        preference, 1, &result, &num_results);
  if (status != kLtSuccess || num_results == 0) {
    throw DeviceError(fmt::format("cuBLASLt has no algorithm for the product {}: {}", shape_text(p),
                                  status == kLtSuccess ? "empty list" : api.status_name(status)));
  }
  kernel.algorithm = result.algorithm;
}

}  // namespace

VendorGemm::VendorGemm(std::shared_ptr<const Device> device)
    : device_(std::move(device)), api_(open_cublaslt()) {
  const RelaxedCapture relaxed(device_->api());
  check(*api_, api_->create(&handle_), "cublasLtCreate");
}

VendorGemm::~VendorGemm() {
  kernels_.clear();
  api_->destroy(handle_);
}

std::string VendorGemm::version() const {
  const std::size_t version = api_->version();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::shared_ptr<const VendorKernel> VendorGemm::kernel(const VendorProblem& problem) {
  const std::scoped_lock lock(mutex_);
  auto& kernel = kernels_[problem];
  if (kernel == nullptr) {
    const auto fresh = std::make_shared<VendorKernel>(api_, problem);
    describe(*fresh);
    choose_algorithm(*fresh, handle_);
    kernel = fresh;
  }
  return kernel;
}

std::vector<VendorCall> VendorGemm::calls(const Product& product, const VendorEpilogue& epilogue) {
  const auto a = leading(product.a, product.m, product.k);
  const auto b = leading(product.b, product.k, product.n);
  const auto d = leading(product.d, product.m, product.n);
  if (!a || !b || !d || !d->row_major) throw InternalError("a product that cannot be addressed");

  VendorProblem problem{product.a.dtype,
                        product.d.dtype,
                        product.tf32,
                        product.rounds_partial_sums,
                        product.promoted,
                        product.m,
                        product.n,
                        product.k,
                        *a,
                        *b,
                        d->stride,
                        {}};
  if (!product.batch.empty()) problem.batch = product.batch.back();
  problem.epilogue = epilogue;
  std::int64_t num_calls = 1;
  for (std::size_t i = 0; i + 1 < product.batch.size(); ++i) num_calls *= product.batch[i].size;
  std::vector<VendorCall> calls;
  for (std::int64_t call = 0; call < num_calls; ++call) {
    std::int64_t rest = call, a_offset = 0, b_offset = 0, d_offset = 0;
    for (std::size_t i = product.batch.size(); i-- > 1;) {
      const BatchDim& dim = product.batch[i - 1];
      a_offset += rest % dim.size * dim.a_stride;
      b_offset += rest % dim.size * dim.b_stride;
      d_offset += rest % dim.size * dim.d_stride;
      rest /= dim.size;
    }
    VendorCall one{nullptr, offset(product.a, a_offset), offset(product.b, b_offset),
                   const_cast<void*>(offset(product.d, d_offset))};
    problem.a_alignment = alignment(one.a);
    problem.b_alignment = alignment(one.b);
    problem.d_alignment = alignment(one.d);
    one.kernel = kernel(problem);
    calls.push_back(std::move(one));
  }
  return calls;
}

void VendorGemm::run(const VendorCall& call, void* workspace, jit::CuStream stream) const {
  const VendorKernel& kernel = *call.kernel;
  const VendorEpilogue& epilogue = kernel.problem.epilogue;
  const float beta = epilogue.residual != nullptr ? 1.0f : 0.0f;
  const void* c = epilogue.residual != nullptr ? epilogue.residual : call.d;
  // The library loads its kernels when they are first used.
  const RelaxedCapture relaxed(device_->api());
  check(*api_,
        api_->matmul(handle_, kernel.desc, &epilogue.alpha, call.b, kernel.b, call.a, kernel.a,
                     &beta, c, kernel.d, call.d, kernel.d, &kernel.algorithm, workspace,
                     kVendorWorkspaceBytes, stream),
        "cublasLtMatmul");
}

namespace {

// A call's tensors as the bound values 0, 1, 2 of a bare product.
Product product_of_views(const TensorView& a, const TensorView& b, const TensorView& d) {
  plan::FusedGemm step;
  codegen::Bound bound;
  for (const TensorView* view : {&a, &b, &d}) {
    if (view->shape.size() < 2) {
      throw ArgumentError(
          fmt::format("expected matrices, got a tensor of {} dims", view->shape.size()));
    }
    bound.tensors.push_back({view->data, {0, view->shape, view->strides_or_dense()}});
  }
  step.gemm.a = {0, false, a.dtype};
  step.gemm.b = {1, false, b.dtype};
  step.gemm.k = Dim(a.shape.back());
  step.epilogue.num_accumulators = 1;
  step.epilogue.stores.push_back({"d", 2, d.dtype, plan::StoreKind::tile, 0});
  Product product = simplify(product_of(step, bound));
  product.rounds_partial_sums = true;
  return product;
}

}  // namespace

std::function<void(Stream)> epilogue_gemm(const std::shared_ptr<const Device>& device,
                                          const TensorView& a, const TensorView& b,
                                          const TensorView& d, const VendorEpilogue& epilogue) {
  const Product product = product_of_views(a, b, d);
  const bool is_direct =
      is_fp8(a.dtype) ? d.dtype == DType::bf16 : has_direct_result(a.dtype, d.dtype);
  if (a.dtype != b.dtype || !is_direct || !leading(product.a, product.m, product.k) ||
      !leading(product.b, product.k, product.n) || !leading(product.d, product.m, product.n)) {
    throw ArgumentError(fmt::format(
        "expected bf16, f16 or f32 matrices, or fp8 ones and a bf16 result, with one contiguous "
        "dim each, got {} x {} -> {}",
        name(a.dtype), name(b.dtype), name(d.dtype)));
  }
  const auto gemm = std::make_shared<VendorGemm>(device);
  const auto calls = gemm->calls(product, epilogue);
  const auto workspace = std::make_shared<DeviceBuffer>(device, kVendorWorkspaceBytes);
  return [gemm, calls, workspace](Stream stream) {
    for (const VendorCall& call : calls) {
      gemm->run(call, workspace->data(), static_cast<jit::CuStream>(stream));
    }
  };
}

std::function<void(Stream)> bare_gemm(const std::shared_ptr<const Device>& device,
                                      const TensorView& a, const TensorView& b,
                                      const TensorView& d) {
  return epilogue_gemm(device, a, b, d, {});
}

}  // namespace epifuse::cuda
