// Making and calling oneDNN's matmul primitives.
#include "backends/cpu/matmul.h"

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl_debug.h>

#include <array>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>

#include "backends/cpu/pack_blocks.h"
#include "backends/cpu/threads.h"
#include "base/check.h"
#include "epifuse/error.h"

namespace epifuse::cpu {
namespace {

[[noreturn]] void fail(const char* what, dnnl_status_t status) {
  throw DeviceError(fmt::format("oneDNN failed to {}: {}", what, dnnl_status2str(status)));
}

dnnl::memory::format_tag tag_of_blocks(const MatrixType& type) {
  using Tag = dnnl::memory::format_tag;
  const bool is_bf16 = type.dtype == DType::bf16;
  switch (type.block_width) {
    case 16: return is_bf16 ? Tag::BA16a16b2a : Tag::BA16a16b;
    case 32: return is_bf16 ? Tag::BA16a32b2a : Tag::BA16a32b;
    case 48: return is_bf16 ? Tag::BA16a48b2a : Tag::BA16a48b;
    default: return is_bf16 ? Tag::BA16a64b2a : Tag::BA16a64b;
  }
}

dnnl::memory::desc describe(const MatrixType& type) {
  const auto dtype =
      type.dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  if (type.block_width > 0) return {type.shape, dtype, tag_of_blocks(type)};
  return {type.shape, dtype, type.strides};
}

dnnl::matmul::primitive_desc describe(const MatmulType& type, const dnnl::engine& engine) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR == 2
  return {{describe(type.a), describe(type.b), describe(type.c)}, attributes, engine};
#else
  return {engine, describe(type.a), describe(type.b), describe(type.c), attributes};
#endif
}

// oneDNN multiplies any format, but only these kernels read blocks without a copy.
bool is_brgemm(const dnnl::matmul::primitive_desc& description) {
  return std::string_view(description.impl_info_str()).starts_with("brg");
}

std::int64_t num_batches(const MatrixType& type) {
  return std::accumulate(type.shape.begin(), type.shape.end() - 2, std::int64_t{1},
                         std::multiplies<>());
}

dnnl::engine make_engine() {
  const dnnl_version_t& version = *dnnl_version();
  require_onednn(version.major, version.minor);
  return {dnnl::engine::kind::cpu, 0};
}

}  // namespace

std::shared_ptr<const Matmul> Matmul::make(const MatmulType& type, const dnnl::engine& engine) {
  const std::int64_t k = type.a.shape.back();
  EPIFUSE_CHECK(padded_k(type.a.dtype, k) == k && padded_k(type.b.dtype, k) == k,
                fmt::format("oneDNN is given a bf16 product of k = {}", k));
  EPIFUSE_CHECK(num_batches(type.c) == 1 || takes_batches(type.a.dtype, type.c.shape.back()),
                fmt::format("oneDNN is given batches of {} columns", type.c.shape.back()));
  const OnednnThreads threads(type.num_threads);  // the primitive is shaped for them
  try {
    const dnnl::matmul::primitive_desc description = describe(type, engine);
    if (type.b.block_width > 0 && !is_brgemm(description)) return nullptr;
    return std::shared_ptr<const Matmul>(new Matmul(engine, description));
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return nullptr;
    fail("make a matmul", error.status);
  }
}

Matmul::Matmul(const dnnl::engine& engine, const dnnl::matmul::primitive_desc& description)
    : engine_(engine),
      primitive_(description),
      a_(description.src_desc()),
      b_(description.weights_desc()),
      c_(description.dst_desc()),
      scratch_(description.scratchpad_desc()) {}

MatmulCall::MatmulCall(std::shared_ptr<const Matmul> matmul)
    : matmul_(std::move(matmul)),
      stream_(matmul_->engine_),
      a_(matmul_->a_, matmul_->engine_, nullptr),
      b_(matmul_->b_, matmul_->engine_, nullptr),
      c_(matmul_->c_, matmul_->engine_, nullptr),
      scratch_(matmul_->scratch_, matmul_->engine_, nullptr) {}

void MatmulCall::run(const void* a, const void* b, void* c, void* scratch) {
  a_.set_data_handle(const_cast<void*>(a));  // oneDNN only reads it
  b_.set_data_handle(const_cast<void*>(b));
  c_.set_data_handle(c);
  scratch_.set_data_handle(scratch);
  const std::array<dnnl_exec_arg_t, 4> arguments{{{DNNL_ARG_SRC, a_.get()},
                                                  {DNNL_ARG_WEIGHTS, b_.get()},
                                                  {DNNL_ARG_DST, c_.get()},
                                                  {DNNL_ARG_SCRATCHPAD, scratch_.get()}}};
  const dnnl_status_t status =
      dnnl_primitive_execute(matmul_->primitive_.get(), stream_.get(),
                             static_cast<int>(arguments.size()), arguments.data());
  if (status != dnnl_success) fail("run a matmul", status);
}

void require_onednn(int major, int minor) {
  constexpr int kMajor = DNNL_VERSION_MAJOR, kOldestMinor = kMajor == 2 ? 6 : 0;
  if (major == kMajor && minor >= kOldestMinor) return;
  throw UnavailableError(fmt::format("expected oneDNN {}.{} or a newer {}.x, loaded {}.{}", kMajor,
                                     kOldestMinor, kMajor, major, minor));
}

MatmulCache::MatmulCache() : engine_(make_engine()) {}

std::shared_ptr<const Matmul> MatmulCache::get(const MatmulType& type) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = made_.find(type); found != made_.end()) return found->second;
  }
  std::shared_ptr<const Matmul> matmul = Matmul::make(type, engine_);
  const std::lock_guard lock(mutex_);
  if (made_.size() >= kMaxPrimitives) made_.clear();  // a caller with ever new shapes
  return made_.emplace(type, std::move(matmul)).first->second;
}

bool MatmulCache::is_native(DType dtype) {
  if (dtype == DType::f32) return true;
  if (dtype != DType::bf16) return false;
  const MatrixType square{DType::bf16, {16, 16}, {16, 1}};
  return get({square, square, {DType::f32, {16, 16}, {16, 1}}, 1}) != nullptr;
}

bool MatmulCache::reads_blocks(DType dtype) {
  const MatrixType square{dtype, {64, 64}, {64, 1}}, blocks{dtype, {64, 64}, {}, kBlockWidth};
  return get({square, blocks, {DType::f32, {64, 64}, {64, 1}}, 1}) != nullptr;
}

}  // namespace epifuse::cpu
