// Rows of text as an aligned table for the terminal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace epifuse::cli {

// Columns are as wide as their widest cell and two spaces apart; the first row is the head. Cells
// hold printable text. A column whose name ends in '>' is right-aligned (the '>' is not shown).
std::string text_table(const std::vector<std::vector<std::string>>& rows);

// "512 B", "47.8 KiB", "1.2 GiB".
std::string size_text(std::uintmax_t bytes);

}  // namespace epifuse::cli
