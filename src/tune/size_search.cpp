// At which sizes the fastest way to run a graph changes, found with few measurements.
#include "tune/size_search.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"

namespace epifuse::tune {
namespace {

bool is_power_or_half_between(std::int64_t size) {
  while (size > 3 && size % 2 == 0) size /= 2;
  return size <= 3;
}

}  // namespace

std::vector<std::vector<std::int64_t>> class_sizes(
    std::int64_t first, std::int64_t last, const std::function<SizeClass(std::int64_t)>& class_of) {
  std::vector<std::vector<std::int64_t>> all;
  std::map<std::string, std::size_t> places;  // by variant
  std::map<std::string, std::string> newest;  // class of the last size, by variant
  for (std::int64_t size = first; size <= last; ++size) {
    const SizeClass its = class_of(size);
    const auto [place, is_new] = places.try_emplace(its.variant, all.size());
    if (is_new) all.emplace_back();
    std::vector<std::int64_t>& sizes = all[place->second];
    std::string& known = newest[its.variant];
    if (!sizes.empty() && known == its.sizes) sizes.pop_back();
    sizes.push_back(size);
    known = its.sizes;
  }
  return all;
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

std::optional<std::size_t> SizeSearch::last_unmeasured() const {
  for (std::size_t i = winners_.size(); i-- > 0;) {
    if (!winners_[i]) return i;
  }
  return std::nullopt;
}

void SizeSearch::cut(std::size_t at) {
  sizes_.resize(at);
  winners_.resize(at);
  std::erase_if(first_ones_, [&](std::size_t i) { return i >= at; });
  const bool has_end = at == 0 || (!first_ones_.empty() && first_ones_.front() == at - 1);
  if (!has_end) first_ones_.insert(first_ones_.begin(), at - 1);
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
