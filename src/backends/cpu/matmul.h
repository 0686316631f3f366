// oneDNN's matmul: primitives made once for each shape, and calls of them.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "epifuse/dtype.h"

namespace epifuse::cpu {

// A matrix (or a batch of them) as oneDNN sees it; sizes of broadcast batch dims are 1.
struct MatrixType {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // not of a matrix in blocks
  std::int64_t block_width = 0;       // of pack_blocks()
  auto operator<=>(const MatrixType&) const = default;
};

// c = a * b with float32 accumulation, on `num_threads` threads.
struct MatmulType {
  MatrixType a, b, c;
  int num_threads = 1;
  auto operator<=>(const MatmulType&) const = default;
};

// The k that oneDNN multiplies operands of `dtype` with: the operands are packed with zeros up to
// it. oneDNN 2.6 gets odd k wrong in bf16, whose instructions take pairs (docs/gotchas-cpu.md).
constexpr std::int64_t padded_k(DType dtype, std::int64_t k) {
  return dtype == DType::bf16 ? k + k % 2 : k;
}

// Whether one call of oneDNN may multiply batches of matrices of n columns. oneDNN 2.6 with AMX
// gets the last of 49 to 63 columns wrong in bf16 (docs/gotchas-cpu.md).
constexpr bool takes_batches(DType dtype, std::int64_t n) {
  return dtype != DType::bf16 || n <= 48 || n >= 64;
}

// A compiled primitive. Any number of threads may call it at once.
class Matmul {
 public:
  // Null when oneDNN has no implementation for the type on this machine, or a slow one for blocks.
  // InternalError for a k that is not padded, and for batches that it may not take.
  static std::shared_ptr<const Matmul> make(const MatmulType& type, const dnnl::engine& engine);

  std::size_t scratch_bytes() const { return scratch_.get_size(); }
  const dnnl::engine& engine() const { return engine_; }

 private:
  friend class MatmulCall;
  Matmul(const dnnl::engine& engine, const dnnl::matmul::primitive_desc& description);
  dnnl::engine engine_;
  dnnl::matmul primitive_;
  dnnl::memory::desc a_, b_, c_, scratch_;
};

// One thread's handle of a primitive, for many calls.
class MatmulCall {
 public:
  explicit MatmulCall(std::shared_ptr<const Matmul> matmul);
  // `scratch` has matmul->scratch_bytes() and the alignment of BufferPool.
  void run(const void* a, const void* b, void* c, void* scratch);

 private:
  std::shared_ptr<const Matmul> matmul_;
  dnnl::stream stream_;
  dnnl::memory a_, b_, c_, scratch_;
};

// UnavailableError unless oneDNN `major`.`minor` has the interface that this was compiled for: 2.6
// to 2.x, or 3.x.
void require_onednn(int major, int minor);

// The primitives of an executable. Thread-safe.
class MatmulCache {
 public:
  // UnavailableError when the library that was loaded is no oneDNN for epifuse.
  MatmulCache();
  std::shared_ptr<const Matmul> get(const MatmulType& type);
  // Whether oneDNN multiplies matrices of `dtype` on this machine; if not, they become f32 first.
  bool is_native(DType dtype);
  // Whether oneDNN has kernels for `dtype` that read b in blocks.
  bool reads_blocks(DType dtype);

 private:
  static constexpr std::size_t kMaxPrimitives = 512;
  dnnl::engine engine_;
  std::mutex mutex_;
  std::map<MatmulType, std::shared_ptr<const Matmul>> made_;
};

}  // namespace epifuse::cpu
