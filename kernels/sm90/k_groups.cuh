// Products that each sum over a group of K, of operands that run along M and N: rows of K that lie
// one behind the other, each group's where the one before ends.
//
// A step has 64 rows of K, and of a group's last step those behind its end are another's. They must
// be zeros in shared memory, as 0 times what stands there may be NaN. So a tensor map sees memory
// as windows of 64 rows, one for each row of K to start at, and a box that starts before its window
// has zeros first: of the last rows of a group, as many as are there, behind zeros. The order of K
// is the same for both operands.
#pragma once

#include "kernels/common/batch.cuh"
#include "kernels/common/integers.cuh"
#include "kernels/sm90/primitives.cuh"

namespace epifuse::sm90 {

// The rows of K of a group.
struct GroupOfK {
  int first = 0, end = 0;

  __device__ __forceinline__ void find(const abi::GemmParams& p, int group) {
    first = group == 0 ? 0 : within(integer_at(p.groups, group - 1), p.k);
    end = max(within(integer_at(p.groups, group), p.k), first);
  }
  // At least one: of zeros where there are no rows.
  template <int kRows>
  __device__ __forceinline__ int steps() const {
    return max((end - first + kRows - 1) / kRows, 1);
  }
};

// For the compiler to see that all lanes have the same (docs/gotchas-groups.md).
template <class Int>
__device__ __forceinline__ Int same(Int x) {
  return __shfl_sync(0xffffffffu, x, 0);
}

// The box of a step, in windows of kRows rows: which window, and the first row in it.
struct BoxOfK {
  Batch window;
  int row;
};
template <int kRows>
__device__ __forceinline__ BoxOfK box_of(const GroupOfK& group, int step) {
  const int first = group.first + step * kRows;
  return {{first, 0}, min(group.end - first, kRows) - kRows};
}

}  // namespace epifuse::sm90
