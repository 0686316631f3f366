// Points that nobody chose: what `epifuse bench --grid random` and `random_fp8` measure.
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

// The same of 8-bit operands with scales of rows and columns, of suite "random_fp8". M is 16 to
// 16384, N and K are 512 to 16384; two thirds are multiples of 128, the others of 16.
std::vector<Point> random_fp8_points(std::uint64_t seed, int count);

}  // namespace epifuse::cli
