// Stands in for kernels/sm90_primitives.cuh: what walking tiles needs of it.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/abi.h"
#include "kernels/sm90_chunk.cuh"

namespace epifuse::device_on_host {
inline thread_local unsigned cluster_rank = 0;
}  // namespace epifuse::device_on_host

namespace cute {
inline unsigned block_rank_in_cluster() { return epifuse::device_on_host::cluster_rank; }
}  // namespace cute

namespace epifuse::sm90 {

using std::max, std::min;  // rather than those of the public API, on graph values

inline int fast_divide(int x, float y) {
  return static_cast<int>(std::floor((static_cast<float>(x) + 0.5f) / y));
}

}  // namespace epifuse::sm90
