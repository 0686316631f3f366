// The header of NumPy's .npy files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace epifuse::cli {

struct NpyHeader {
  std::string descr;  // the dtype: "<f4"
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  std::size_t data_offset = 0;  // bytes before the first element
};

// Of versions 1.0, 2.0 and 3.0, as NumPy writes them: a Python dict of exactly `descr` (text, so no
// structured dtype), `fortran_order` and `shape`, then spaces and a newline. Anything else is an
// ArgumentError: `path`, what was expected, what came.
NpyHeader parse_npy_header(const std::string& path, std::string_view bytes);

// Of version 1.0, in row-major order.
std::string npy_header(std::string_view descr, const std::vector<std::int64_t>& shape);

// Longer dicts are refused (NumPy's own limit).
constexpr std::size_t kMaxNpyDictBytes = 10'000;
// In front of the data at most: the dict, and what tells its length.
constexpr std::size_t kMaxNpyBytesBeforeData = kMaxNpyDictBytes + 12;

}  // namespace epifuse::cli
