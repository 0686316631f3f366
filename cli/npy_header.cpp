#include "npy_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/printable.h"
#include "epifuse/error.h"

namespace epifuse::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kShownBytes = 40;  // of what came

// Reads the header's dict from left to right.
class DictReader {
 public:
  DictReader(const std::string& path, std::string_view text) : path_(path), rest_(text) {}

  NpyHeader read() {
    expect('{');
    while (!accept('}')) {
      read_entry();
      if (accept(',')) continue;
      expect('}');
      break;
    }
    if (!descr_ || !fortran_order_ || !shape_) {
      throw error("'descr', 'fortran_order' and 'shape'", "a header without one of them");
    }
    if (rest_.find_first_not_of(' ') != rest_.size() - 1 || rest_.back() != '\n') {
      throw error("spaces and a newline behind the dict", came());
    }
    return {*descr_, *fortran_order_, *shape_, 0};
  }

  ArgumentError error(std::string_view expected, const std::string& got) const {
    return ArgumentError(
        fmt::format("{}: expected a .npy file with {}, got {}", printable(path_), expected, got));
  }

 private:
  std::string came() {
    return rest_.empty() ? "the header's end"
                         : fmt::format("'{}'", printable(rest_.substr(0, kShownBytes)));
  }

  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }

  bool accept(std::string_view word) {
    skip_spaces();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool accept(char c) { return accept(std::string_view(&c, 1)); }
  void expect(char c) {
    if (!accept(c)) throw error(fmt::format("'{}' in its header", c), came());
  }

  std::string quoted() {
    expect('\'');
    const std::size_t end = rest_.find('\'');
    if (end == std::string_view::npos) throw error("a closed quotation in its header", came());
    const std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }

  void read_entry() {
    const std::string key = quoted();
    expect(':');
    if (key == "descr") return set(descr_, quoted(), key);
    if (key == "fortran_order") return set(fortran_order_, read_bool(), key);
    if (key == "shape") return set(shape_, read_shape(), key);
    throw error("'descr', 'fortran_order' and 'shape' in its header",
                fmt::format("'{}'", printable(key, kShownBytes)));
  }

  template <class T>
  void set(std::optional<T>& field, T value, const std::string& key) {
    if (field) throw error(fmt::format("'{}' once in its header", key), "it twice");
    field = std::move(value);
  }

  bool read_bool() {
    if (accept("True")) return true;
    if (accept("False")) return false;
    throw error("fortran_order True or False", came());
  }

  std::int64_t read_size() {
    skip_spaces();
    std::int64_t size = -1;
    const char* end = rest_.data() + rest_.size();
    const auto [stop, failed] = std::from_chars(rest_.data(), end, size);
    const bool leading_zero = rest_.starts_with('0') && stop - rest_.data() > 1;
    if (failed != std::errc() || size < 0 || leading_zero) {
      throw error("a shape such as (8, 4) or (8,)", came());
    }
    rest_.remove_prefix(static_cast<std::size_t>(stop - rest_.data()));
    return size;
  }

  std::vector<std::int64_t> read_shape() {
    std::vector<std::int64_t> shape;
    if (!accept('(')) throw error("a shape such as (8, 4) or (8,)", came());
    while (!accept(')')) {
      shape.push_back(read_size());
      if (accept(',')) continue;
      if (shape.size() == 1 || !accept(')')) throw error("a shape such as (8, 4) or (8,)", came());
      break;
    }
    return shape;
  }

  const std::string& path_;
  std::string_view rest_;
  std::optional<std::string> descr_;
  std::optional<bool> fortran_order_;
  std::optional<std::vector<std::int64_t>> shape_;
};

}  // namespace

NpyHeader parse_npy_header(const std::string& path, std::string_view bytes) {
  const DictReader whole(path, bytes);
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i]));
  };
  constexpr std::size_t kShortestStart = 10;
  if (bytes.size() < kShortestStart + 2 || !bytes.starts_with(kMagic)) {
    throw whole.error("NumPy's first bytes", "others");
  }
  const std::size_t version = byte(6);
  if (version < 1 || version > 3 || byte(7) != 0) {
    throw whole.error("version 1.0, 2.0 or 3.0", fmt::format("{}.{}", version, byte(7)));
  }
  std::size_t start = 10, length = byte(8) | byte(9) << 8;
  if (version > 1) {
    start = 12;
    length |= byte(10) << 16 | byte(11) << 24;
  }
  if (length > kMaxNpyDictBytes) {
    throw whole.error(fmt::format("a header of at most {} bytes", kMaxNpyDictBytes),
                      fmt::format("{}", length));
  }
  if (start + length > bytes.size()) {
    throw whole.error("a whole header", "one that ends inside it");
  }
  NpyHeader header = DictReader(path, bytes.substr(start, length)).read();
  header.data_offset = start + length;
  return header;
}

std::string npy_header(std::string_view descr, const std::vector<std::int64_t>& shape) {
  constexpr std::size_t kStart = 10, kAlignment = 64;
  std::string sizes;
  for (const std::int64_t size : shape) sizes += fmt::format("{}, ", size);
  std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, sizes);
  const std::size_t whole = (kStart + dict.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  dict.resize(whole - kStart - 1, ' ');
  dict += '\n';
  std::string out(kMagic);
  out +=
      {'\x01', '\x00', static_cast<char>(dict.size() & 0xff), static_cast<char>(dict.size() >> 8)};
  return out + dict;
}

}  // namespace epifuse::cli
