// Which dims a reshape merges and splits.
#include "ir/reshape.h"

#include <algorithm>

#include "base/check.h"
#include "epifuse/tensor.h"

namespace epifuse::ir {
namespace {

// Number of elements up to and including each dim that is not of size 1.
struct Prefix {
  std::size_t dim;
  Dim product;
};

std::vector<Prefix> prefixes(const Shape& shape) {
  std::vector<Prefix> result;
  Dim product = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d].is(1)) continue;
    product = product * shape[d];
    result.push_back({d, product});
  }
  return result;
}

bool is_empty(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](const Dim& dim) { return dim.is(0); });
}

}  // namespace

std::vector<ReshapeGroup> reshape_groups(const Shape& from, const Shape& to) {
  if (is_empty(from) || is_empty(to)) return {};
  const std::vector<Prefix> prefixes_to = prefixes(to);
  std::vector<ReshapeGroup> groups;
  ReshapeGroup open;
  auto next = prefixes_to.begin();
  // A group ends where the same number of elements lies before it on both sides.
  for (const Prefix& prefix : prefixes(from)) {
    open.from.push_back(prefix.dim);
    const auto same = std::find_if(next, prefixes_to.end(), [&](const Prefix& candidate) {
      return candidate.product == prefix.product;
    });
    if (same == prefixes_to.end()) continue;
    for (; next <= same; ++next) open.to.push_back(next->dim);
    groups.push_back(std::move(open));
    open = {};
  }
  EPIFUSE_CHECK(open.from.empty() && next == prefixes_to.end(),
                "a reshape keeps the number of elements");
  return groups;
}

std::optional<std::vector<std::int64_t>> reshape_strides(const std::vector<std::int64_t>& from,
                                                         const std::vector<std::int64_t>& strides,
                                                         const std::vector<std::int64_t>& to) {
  std::vector<std::int64_t> result = TensorView::dense_strides(to);
  const Shape shape_from(from.begin(), from.end()), shape_to(to.begin(), to.end());
  for (const ReshapeGroup& group : reshape_groups(shape_from, shape_to)) {
    // All dims of a group must be walked by one stride, that of its innermost dim.
    for (std::size_t i = 0; i + 1 < group.from.size(); ++i) {
      const std::size_t outer = group.from[i], inner = group.from[i + 1];
      if (strides[outer] != strides[inner] * from[inner]) return std::nullopt;
    }
    std::int64_t stride = strides[group.from.back()];
    for (std::size_t i = group.to.size(); i-- > 0;) {
      result[group.to[i]] = stride;
      stride *= to[group.to[i]];
    }
  }
  // A dim of size 1 is never stepped along; it gets the stride that a dense layout would have.
  for (std::size_t d = to.size(); d-- > 0;) {
    if (to[d] == 1 && d + 1 < to.size()) result[d] = result[d + 1] * to[d + 1];
  }
  return result;
}

}  // namespace epifuse::ir
