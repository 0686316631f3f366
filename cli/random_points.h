// Points that nobody chose: what `epifuse bench --grid random` measures.
#pragma once

#include <cstdint>
#include <vector>

#include "bench_points.h"

namespace epifuse::cli {

// Products of a seed, the same on every machine, of suite "random". M is 1 to 16384, N and K are 64
// to 16384, each uniform in its logarithm; half of N and K are multiples of 64, a fifth is odd or
// otherwise off 16-byte boundaries. Layouts, dtypes, batches and epilogues vary. A product has at
// most 4e12 flops, and its tensors 3e8 elements.
std::vector<Point> random_points(std::uint64_t seed, int count);

}  // namespace epifuse::cli
