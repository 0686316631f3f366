// Integers in memory that rows are looked up by, and groups of rows end at.
#pragma once

#include "kernels/abi.h"

namespace epifuse {

__device__ __forceinline__ long long integer_at(const abi::Integers& x, long long i) {
  const long long at = i * x.stride;
  if (x.is_wide) return static_cast<const long long*>(x.data)[at];
  return static_cast<const int*>(x.data)[at];
}

// Ends of groups outside of the rows there are must not lead out of memory.
template <class Int>
__device__ __forceinline__ Int within(long long x, Int most) {
  return x < 0 ? 0 : x < most ? static_cast<Int>(x) : most;
}

// The row that an index names for row `i`, counted from the last where it is negative.
__device__ __forceinline__ long long named_row(const abi::Integers& index, long long i) {
  const long long row = integer_at(index, i);
  return row < 0 ? row + index.num_rows : row;
}

// The same of a row to be read: an index that is wrong must not lead out of the table.
__device__ __forceinline__ long long row_to_read(const abi::Integers& index, long long i) {
  const long long row = named_row(index, i);
  return row < 0 ? 0 : row < index.num_rows ? row : index.num_rows - 1;
}

// The group of row `i`, where `ends` are those of `num_rows` groups; behind the last end the last.
__device__ __forceinline__ long long group_of_row(const abi::Integers& ends, long long i) {
  long long first = 0, last = ends.num_rows - 1;
  while (first < last) {
    const long long middle = (first + last) / 2;
    if (integer_at(ends, middle) > i) {
      last = middle;
    } else {
      first = middle + 1;
    }
  }
  return first;
}

}  // namespace epifuse
