// Which product of a batched one, and where its matrices are.
#pragma once

#include "kernels/abi.h"

namespace epifuse {

// All zero where there is one product.
struct Batch {
  int inner = 0, outer = 0;
};

__device__ __forceinline__ long long offset_of(const abi::BatchStrides& strides, Batch batch) {
  return strides.outer * batch.outer + strides.inner * batch.inner;
}

}  // namespace epifuse
