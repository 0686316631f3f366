// Tensors as memory: how far they reach, and whether they share any of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace epifuse {

using Numbers = std::span<const std::int64_t>;

// Product of the sizes, those of 0 counted as 1, so that strides do not wrap either. Empty for a
// negative size, and above kMaxElements.
std::optional<std::int64_t> checked_count(Numbers sizes);

// Throws ArgumentError for the value of a size symbol that is not from 0 to kMaxElements.
void check_size(std::string_view symbol, std::int64_t size);

// Elements from the first in memory to the last, relative to the one at index 0.
struct Reach {
  std::int64_t first = 0, last = 0;
};
// Strides of dims of size 0 and 1 say nothing. Empty where it is more than kMaxElements.
std::optional<Reach> checked_reach(Numbers sizes, Numbers strides);

// Makes of the dims before the last `num_fixed` as few as it can, for tensors that are walked
// together: leaves out those of size 1, and makes one of neighbours that every tensor walks with
// one stride, as x[i, j] with stride[i] = size[j] * stride[j] is x[i * size[j] + j]. Dims that
// `stays` says this of by then stay as they are.
using DimLists = std::span<std::vector<std::int64_t>* const>;
void join_dims(std::vector<std::int64_t>& sizes, DimLists strides, std::size_t num_fixed = 0,
               const std::function<bool(std::size_t)>& stays = nullptr);
void erase_dim(std::vector<std::int64_t>& sizes, DimLists strides, std::size_t dim);

// A tensor of at least one element; checked_reach gives its reach.
struct Strided {
  std::int64_t address = 0;  // of the element at index 0, in bytes
  std::int64_t element_bytes = 1;
  Numbers sizes, strides;
};

// Whether two elements of one tensor lie at one place.
bool folds(Numbers sizes, Numbers strides);

// Whether elements of both have a byte in common. Columns of one buffer that lie between each other
// have none. Exact but for tensors of many dims with odd strides: true where it takes too long.
bool share_memory(const Strided& a, const Strided& b);

}  // namespace epifuse
