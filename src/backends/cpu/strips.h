// Loops over strips: short runs of floats that stay in the first cache. One table of loops for each
// instruction set, all compiled from strips_loops.inc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace epifuse::cpu {

// Elementwise loops work on whole groups of this many floats, so that an element's result does not
// depend on where it lies in a strip; buffers have room for it.
constexpr std::int64_t kLanes = 16;
constexpr std::int64_t padded(std::int64_t num_floats) {
  return (num_floats + kLanes - 1) / kLanes * kLanes;
}

constexpr int kNumDTypes = 9;
constexpr int kNumOps = 0
#define EPIFUSE_OP(name, ...) +1
#include "ir/ops.def"
#undef EPIFUSE_OP
    ;

// Arrays over dtypes are indexed by DType, null for those that number rows; those over ops by the
// row of ops.def. Strides are in elements. Includes nothing of the library: its users are compiled
// for newer processors.
struct StripKernels {
  const char* name;
  // out[i] = data[i * stride], exactly n floats are written.
  void (*load[kNumDTypes])(float* out, const void* data, std::int64_t stride, std::int64_t n);
  // data[i * stride] = in[i], rounded to nearest even.
  void (*store[kNumDTypes])(void* data, std::int64_t stride, const float* in, std::int64_t n);
  // out[i] = in[i] rounded to the dtype; padded(n) floats.
  void (*round[kNumDTypes])(float* out, const float* in, std::int64_t n);
  // out[i] = op(x0[i], x1[i], x2[i]); padded(n) floats; `out` may be one of the operands.
  void (*op[kNumOps])(float* out, const float* x0, const float* x1, const float* x2,
                      std::int64_t n);
  void (*fill)(float* out, float value, std::int64_t n);
  // Reductions in a fixed order; sums in double; NaN wins every max. Exactly n floats are read.
  double (*sum)(const float* in, std::int64_t n);
  double (*max)(const float* in, std::int64_t n);  // -infinity when n is 0
  void (*add_to)(double* out, const float* in, std::int64_t n);
  void (*max_to)(double* out, const float* in, std::int64_t n);
  // out[i] = sum over j of a[j] * b[i * b_stride + j], for rows i of b: a product with one row.
  void (*dots[kNumDTypes])(float* out, const float* a, const void* b, std::int64_t b_stride,
                           std::int64_t num_rows, std::int64_t k);
  // Words of 4 bytes, 16 by 16, for each of `num_blocks` along a row:
  // out[(block * 16 + j) * out_stride + i] = row(i)[block * 16 + j], rows `row_bytes` apart.
  void (*transpose)(void* out, std::int64_t out_stride, const void* rows, std::int64_t row_bytes,
                    std::int64_t num_blocks);
  // out[i] = data[2 i], elements of 2 bytes.
  void (*every_second)(void* out, const void* data, std::int64_t n);
  // Words from two rows of 2-byte elements: (even[i * stride], odd[i * stride]); `odd` may be null:
  // zeros.
  void (*interleave)(void* out, const void* even, const void* odd, std::int64_t stride,
                     std::int64_t n);
};

// The tables this processor can run, best first; never empty.
struct StripTables {
  const StripKernels* tables[3];
  std::size_t count;
};
StripTables available_strips();
inline const StripKernels& best_strips() { return *available_strips().tables[0]; }

}  // namespace epifuse::cpu
