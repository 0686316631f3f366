#include "size_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/printable.h"
#include "epifuse/error.h"
#include "epifuse/tensor.h"
#include "ir/graph.h"

namespace epifuse::cli {
namespace {

[[noreturn]] void fail(const std::string& word) {
  throw ArgumentError(
      fmt::format("--sizes: expected a symbol with sizes from 1 to 2^40, such as M=1..8192 or "
                  "M=1,8,64, got '{}'",
                  printable(word)));
}

std::optional<std::int64_t> size_of(std::string_view digits) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool is_whole = error == std::errc() && end == digits.data() + digits.size();
  if (!is_whole || value < 1 || value > kMaxElements) return std::nullopt;
  return value;
}

}  // namespace

SizeRange parse_size_range(const std::string& word) {
  constexpr std::string_view kTo = "..";
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos) fail(word);
  SizeRange range{word.substr(0, equals), {}, false};
  if (!ir::is_identifier(range.symbol)) fail(word);
  std::string_view rest = std::string_view(word).substr(equals + 1);
  const std::size_t to = rest.find(kTo);
  range.is_range = to != rest.npos;
  const std::string_view separator = range.is_range ? kTo : ",";
  while (true) {
    const std::size_t end = rest.find(separator);
    const auto size = size_of(rest.substr(0, end));
    if (!size) fail(word);
    range.sizes.push_back(*size);
    if (end == rest.npos) break;
    rest.remove_prefix(end + separator.size());
  }
  if (range.is_range && (range.sizes.size() != 2 || range.sizes[0] > range.sizes[1])) fail(word);
  std::ranges::sort(range.sizes);
  const auto same = std::ranges::unique(range.sizes);
  range.sizes.erase(same.begin(), same.end());
  if (range.is_range && range.sizes.size() == 1) range.sizes.push_back(range.sizes.front());
  return range;
}

}  // namespace epifuse::cli
