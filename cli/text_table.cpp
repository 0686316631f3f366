#include "text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace epifuse::cli {

std::string text_table(const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return "";
  std::vector<std::vector<std::string>> cells = rows;
  std::vector<bool> right;
  for (std::string& name : cells.front()) {
    right.push_back(name.ends_with('>'));
    if (right.back()) name.pop_back();
  }
  std::vector<std::size_t> widths(right.size());
  for (const auto& row : cells) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : cells) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += right[i] ? fmt::format("{:>{}}  ", row[i], widths[i])
                       : fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string size_text(std::uintmax_t bytes) {
  constexpr std::uintmax_t kUnit = 1024;
  if (bytes < kUnit) return fmt::format("{} B", bytes);
  double size = static_cast<double>(bytes);
  std::string_view unit;
  for (const std::string_view next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (!unit.empty() && size < kUnit) break;
    unit = next;
    size /= kUnit;
  }
  return fmt::format("{:.1f} {}", size, unit);
}

}  // namespace epifuse::cli
