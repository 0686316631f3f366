// At which sizes the fastest way to run a graph changes, found with few measurements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tune/shape_class.h"

namespace epifuse::tune {

// The largest size of each class between the two, ascending, by variant: sizes of one variant are
// searched together.
std::vector<std::vector<std::int64_t>> class_sizes(
    std::int64_t first, std::int64_t last, const std::function<SizeClass(std::int64_t)>& class_of);

// Measured first are the two ends and the powers of 2 with the halves between them. Then, between
// neighbours that differ, the size in the middle, until they are next to each other. Sizes between
// neighbours that agree are taken to agree.
class SizeSearch {
 public:
  explicit SizeSearch(std::vector<std::int64_t> sizes);  // ascending

  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  std::optional<std::size_t> next() const;  // which size to measure; empty when all is known
  std::optional<std::size_t> last_unmeasured() const;  // for lists, of which each is measured
  void add(std::size_t at, std::string winner);
  // Sizes from this one on cannot be measured, and nothing is said of them.
  void cut(std::size_t at);
  std::size_t num_measured() const;
  std::size_t num_left() const;  // at least, as far as is known by now

  // The measured size whose winner a size has: itself, or the one below that agrees with the one
  // above. Empty where they differ and nothing was measured between them.
  std::optional<std::size_t> source_of(std::size_t at) const;

 private:
  std::optional<std::size_t> measured_below(std::size_t at) const;
  std::optional<std::size_t> measured_above(std::size_t at) const;
  std::vector<std::int64_t> sizes_;
  std::vector<std::size_t> first_ones_;  // what is measured in any case, in order
  std::vector<std::optional<std::string>> winners_;
};

}  // namespace epifuse::tune
