#include "npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <functional>
#include <system_error>
#include <vector>

#include "base/float_types.h"
#include "base/printable.h"
#include "epifuse/error.h"
#include "files.h"
#include "npy_header.h"

namespace epifuse::cli {
namespace {

// A NumPy dtype that can be read: bytes of an element, and which of ours has the same bits (of |u1
// e5m2 as well).
struct Source {
  std::string_view descr;
  std::int64_t bytes;
  DType same;  // of <f8, which none of ours is: f32
};

constexpr Source kSources[] = {
    {"<f2", 2, DType::f16},  {"<f4", 4, DType::f32},     {"<f8", 8, DType::f32},
    {"<u2", 2, DType::bf16}, {"|b1", 1, DType::boolean}, {"<i4", 4, DType::i32},
    {"<i8", 8, DType::i64},  {"|i1", 1, DType::i8},      {"|u1", 1, DType::e4m3},
};
constexpr std::int64_t kMostBytes = 8;  // of an element

// Whether an unsigned integer stands for the bits of a dtype that NumPy lacks.
bool is_bits(const Source& source) { return source.same == DType::bf16 || is_fp8(source.same); }

// The source that converts to `dtype`, or null.
const Source* find_source(std::string_view descr, DType dtype) {
  for (const Source& source : kSources) {
    if (source.descr != descr || is_integer(source.same) != is_integer(dtype)) continue;
    if ((source.same == DType::i8) != (dtype == DType::i8)) continue;
    const bool fits = dtype == source.same || (is_fp8(dtype) && is_fp8(source.same));
    return is_bits(source) && !fits ? nullptr : &source;
  }
  return nullptr;
}

std::string choices(DType dtype) {
  std::string out;
  for (const Source& source : kSources) {
    if (find_source(source.descr, dtype) == nullptr) continue;
    out += fmt::format("{}{}{}", out.empty() ? "" : ", ", source.descr,
                       is_bits(source) ? " (the bits)" : "");
  }
  return out;
}

std::int64_t load_integer(const Source& source, const char* data) {
  if (source.same == DType::i64) {
    std::int64_t value = 0;
    std::memcpy(&value, data, sizeof value);
    return value;
  }
  std::int32_t value = 0;
  std::memcpy(&value, data, sizeof value);
  return value;
}

// Calls `action(i, offset)` for each element in row-major order: its number, its place in memory.
template <class Action>
void for_each_element(const TensorView& view, const Action& action) {
  const std::vector<std::int64_t> strides = view.strides_or_dense();
  std::vector<std::int64_t> index(view.shape.size());
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < view.num_elements(); ++i) {
    action(i, offset);
    for (std::size_t d = index.size(); d-- > 0;) {
      offset += strides[d];
      if (++index[d] < view.shape[d]) break;
      offset -= index[d] * strides[d];
      index[d] = 0;
    }
  }
}

// Integers take no way through double, which has 53 bits.
void store_integer(const std::string& where, const Source& source, const char* data,
                   const TensorView& view, std::int64_t i, std::int64_t offset) {
  const std::int64_t value = load_integer(source, data + i * source.bytes);
  const auto narrow = static_cast<std::int32_t>(value);
  if (view.dtype == DType::i32 && narrow != value) {
    throw ArgumentError(
        fmt::format("{} is {}, got {} at element {}", where, name(view.dtype), value, i));
  }
  const std::int64_t bytes = size_bytes(view.dtype);
  std::memcpy(static_cast<char*>(view.data) + offset * bytes,
              bytes == 4 ? static_cast<const void*>(&narrow) : &value,
              static_cast<std::size_t>(bytes));
}

void store_float(const Source& source, const char* data, const TensorView& view, std::int64_t i,
                 std::int64_t offset) {
  double x = 0;
  if (source.descr == "<f8") {
    std::memcpy(&x, data + i * source.bytes, sizeof x);
  } else {
    x = load_element(data, is_bits(source) ? view.dtype : source.same, i);
  }
  store_element(view.data, view.dtype, offset, x);
}

// Strides of 0, say, make one element in memory of several in the file, which must be alike.
void check_shared(const std::string& where, const TensorView& view,
                  const std::function<void(std::int64_t, std::int64_t)>& store) {
  const auto bytes = static_cast<std::size_t>(size_bytes(view.dtype));
  std::array<char, kMostBytes> before{};
  for_each_element(view, [&](std::int64_t i, std::int64_t offset) {
    const char* const element =
        static_cast<const char*>(view.data) + static_cast<std::size_t>(offset) * bytes;
    std::memcpy(before.data(), element, bytes);
    store(i, offset);
    if (std::memcmp(before.data(), element, bytes) == 0) return;
    throw ArgumentError(
        fmt::format("{} has strides [{}], which make one element of several, but those of the file "
                    "differ: element {} is another than one that shares its memory",
                    where, fmt::join(view.strides, ", "), i));
  });
}

void copy_elements(const std::string& where, const Source& source, const char* data,
                   const TensorView& view) {
  const auto store = [&](std::int64_t i, std::int64_t offset) {
    if (is_integer(view.dtype)) return store_integer(where, source, data, view, i, offset);
    store_float(source, data, view, i, offset);
  };
  for_each_element(view, store);
  const bool is_dense = view.strides_or_dense() == TensorView::dense_strides(view.shape);
  if (!is_dense) check_shared(where, view, store);
}

void read_npy(const std::string& path, const std::string& input, const TensorView& view) {
  const std::int64_t count = view.num_elements();
  const std::string bytes =
      read_input(path, kMaxNpyBytesBeforeData + static_cast<std::size_t>(count * kMostBytes));
  const NpyHeader header = parse_npy_header(path, bytes);
  const std::string where = fmt::format("{}: input {}", printable(path), input);
  if (header.shape != view.shape) {
    throw ArgumentError(fmt::format("{} expects shape [{}], got [{}]", where,
                                    fmt::join(view.shape, ", "), fmt::join(header.shape, ", ")));
  }
  const Source* source = find_source(header.descr, view.dtype);
  if (source == nullptr) {
    throw ArgumentError(fmt::format("{} is {}, expected dtype {}, got {}", where, name(view.dtype),
                                    choices(view.dtype), printable(header.descr)));
  }
  if (header.fortran_order && view.shape.size() > 1) {
    throw ArgumentError(fmt::format("{} expects row-major order, got Fortran order", where));
  }
  const std::size_t got = bytes.size() - header.data_offset;
  if (got != static_cast<std::size_t>(count * source->bytes)) {
    throw ArgumentError(
        fmt::format("{} expects {} bytes of data, got {}", where, count * source->bytes, got));
  }
  copy_elements(where, *source, bytes.data() + header.data_offset, view);
}

}  // namespace

void read_tensor(const std::string& path, const std::string& input, const TensorView& view,
                 std::size_t memory_bytes) {
  if (path.ends_with(".npy")) return read_npy(path, input, view);
  const std::string bytes = read_input(path, memory_bytes);
  if (bytes.size() != memory_bytes) {
    throw ArgumentError(fmt::format("{}: input {} expects {} raw bytes ([{}] of {}), got {}",
                                    printable(path), input, memory_bytes,
                                    fmt::join(view.shape, ", "), name(view.dtype), bytes.size()));
  }
  if (memory_bytes > 0) std::memcpy(view.data, bytes.data(), memory_bytes);
}

double read_scalar(const std::string& text, const std::string& input) {
  double number = 0;
  const char* const end = text.data() + text.size();
  if (const auto read = std::from_chars(text.data(), end, number);
      read.ptr == end && read.ec == std::errc()) {
    return number;
  }
  if (std::error_code error; !std::filesystem::exists(text, error)) {
    throw ArgumentError(fmt::format(
        "{}: cannot be read: {}; the scalar {} expects a number, as 0.5, or a file",
        printable(text),
        (error ? error : std::make_error_code(std::errc::no_such_file_or_directory)).message(),
        input));
  }
  float value = 0;
  TensorView view;
  view.data = &value;
  read_tensor(text, input, view, sizeof value);
  return static_cast<double>(value);
}

void write_npy(const std::string& path, const TensorView& view) {
  const bool as_bool = view.dtype == DType::boolean;
  OutputFile out(path);
  out.write(npy_header(as_bool ? "|b1" : "<f4", view.shape));
  const std::int64_t count = view.num_elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto x = static_cast<float>(load_element(view.data, view.dtype, i));
    const char truth = x != 0 ? '\x01' : '\x00';
    out.write(as_bool ? std::string_view(&truth, 1)
                      : std::string_view(reinterpret_cast<const char*>(&x), sizeof x));
  }
  out.keep();
}

}  // namespace epifuse::cli
