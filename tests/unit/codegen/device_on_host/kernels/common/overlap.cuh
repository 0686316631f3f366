// Kernels on the host run one after another: kernels/common/overlap.cuh without PTX.
#pragma once

namespace epifuse {

inline void await_previous_kernel() {}
inline void allow_next_kernel() {}

}  // namespace epifuse
