// Which dims of its operand the dims of a view are made of.
#include "ir/view_dims.h"

#include <algorithm>

#include "base/check.h"

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

std::vector<ViewDims> reshape_dims(const Shape& from, const Shape& to) {
  if (is_empty(from) || is_empty(to)) return {};
  const std::vector<Prefix> prefixes_to = prefixes(to);
  std::vector<ViewDims> groups;
  ViewDims open;
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

}  // namespace

std::vector<ViewDims> view_dims(const Node& view, const Shape& from, const Shape& to) {
  if (view.op == Op::reshape) return reshape_dims(from, to);
  std::vector<ViewDims> result;
  const std::size_t lead = to.size() - from.size();  // dims that a broadcast adds
  for (std::size_t d = lead; d < to.size(); ++d) {
    const std::size_t place = d - lead;
    switch (view.op) {
      case Op::transpose:
        result.push_back({{static_cast<std::size_t>(view.permutation[d])}, {d}});
        break;
      case Op::slice: {
        const bool is_whole = view.ranges[d] == SliceRange{Dim{}, from[d], 1};
        result.push_back({{d}, {d}, is_whole ? nullptr : &view.ranges[d]});
        break;
      }
      case Op::broadcast:
        if (from[place] == to[d]) result.push_back({{place}, {d}});
        break;
      default: result.push_back({{d}, {d}, nullptr, d == 0}); break;
    }
  }
  return result;
}

}  // namespace epifuse::ir
