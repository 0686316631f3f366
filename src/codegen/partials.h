// Where kernels leave partial results of reductions (Partials of codegen/family.h).
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/family.h"

namespace epifuse::codegen {

// What a step reduces, as the kernel sees it.
struct ReducedSpace {
  std::vector<std::int64_t> batch;
  std::int64_t m = 0, n = 0;
  bool along_rows = false;  // a result for each row, else for each column
};
ReducedSpace reduced_space(const plan::FusedGemm& step, const Sizes& sizes, bool are_exchanged);

// `parts` rows of `length` values a batch, of which the first `num_parts` make up the result.
Partials lay_out_partials(std::vector<std::int64_t> batch, std::int64_t parts,
                          std::int64_t num_parts, std::int64_t length);

}  // namespace epifuse::codegen
