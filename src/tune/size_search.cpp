// At which sizes the fastest way to run a graph changes, found with few measurements.
#include "tune/size_search.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "tune/shape_class.h"

namespace epifuse::tune {
namespace {

bool is_power_or_half_between(std::int64_t size) {
  while (size > 3 && size % 2 == 0) size /= 2;
  return size <= 3;
}

}  // namespace

std::vector<std::int64_t> class_sizes(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = first; size <= last; ++size) {
    size = std::min(shape_class({1, size, 1, 1}).m, last);
    sizes.push_back(size);
  }
  return sizes;
}

SizeSearch::SizeSearch(std::vector<std::int64_t> sizes)
    : sizes_(std::move(sizes)), winners_(sizes_.size()) {
  EPIFUSE_CHECK(!sizes_.empty() && std::ranges::is_sorted(sizes_), "sizes to search are in order");
  for (std::size_t i = sizes_.size(); i-- > 0;) {
    const bool is_end = i == 0 || i + 1 == sizes_.size();
    if (is_end || is_power_or_half_between(sizes_[i])) first_ones_.push_back(i);
  }
}

std::optional<std::size_t> SizeSearch::measured_below(std::size_t at) const {
  while (at-- > 0) {
    if (winners_[at]) return at;
  }
  return std::nullopt;
}

std::optional<std::size_t> SizeSearch::measured_above(std::size_t at) const {
  while (++at < winners_.size()) {
    if (winners_[at]) return at;
  }
  return std::nullopt;
}

std::optional<std::size_t> SizeSearch::next() const {
  for (const std::size_t i : first_ones_) {
    if (!winners_[i]) return i;
  }
  std::size_t widest = 1;
  std::optional<std::size_t> middle;
  for (std::size_t low = 0; low < winners_.size(); ++low) {
    const auto high = measured_above(low);
    if (!winners_[low] || !high || *winners_[low] == *winners_[*high]) continue;
    if (*high - low <= widest) continue;
    widest = *high - low;
    middle = low + widest / 2;
  }
  return middle;
}

void SizeSearch::add(std::size_t at, std::string winner) { winners_[at] = std::move(winner); }

std::size_t SizeSearch::num_measured() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(winners_, [](const auto& winner) { return winner.has_value(); }));
}

std::size_t SizeSearch::num_left() const {
  std::size_t left = 0;
  for (const std::size_t i : first_ones_) left += winners_[i] ? 0 : 1;
  for (std::size_t low = 0; low < winners_.size(); ++low) {
    const auto high = measured_above(low);
    if (!winners_[low] || !high || *winners_[low] == *winners_[*high]) continue;
    for (std::size_t gap = *high - low; gap > 1; gap = (gap + 1) / 2) ++left;
  }
  return left;
}

std::optional<std::size_t> SizeSearch::source_of(std::size_t at) const {
  if (winners_[at]) return at;
  const auto low = measured_below(at), high = measured_above(at);
  if (!low || !high || *winners_[*low] != *winners_[*high]) return std::nullopt;
  return low;
}

}  // namespace epifuse::tune
