// The sizes of one run of a product.
#pragma once

#include <cstdint>

namespace epifuse::codegen {

struct GemmSizes {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  std::int64_t groups = 0;  // that the m rows belong to, nobody knows how many to which; 0: none
  bool is_empty() const { return batch == 0 || m == 0 || n == 0; }
};

// Groups as products of equal sizes, which is what can be expected of them; others as they are.
GemmSizes even_groups(GemmSizes sizes);

}  // namespace epifuse::codegen
