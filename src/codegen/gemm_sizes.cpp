#include "codegen/gemm_sizes.h"

#include <algorithm>

#include "base/ceil_div.h"

namespace epifuse::codegen {

GemmSizes even_groups(GemmSizes sizes) {
  if (sizes.groups == 0) return sizes;
  sizes.batch = std::max<std::int64_t>(std::min(sizes.groups, sizes.m), 1);
  sizes.m = ceil_div(sizes.m, sizes.batch);
  sizes.groups = 0;
  return sizes;
}

}  // namespace epifuse::codegen
