#include "npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstring>
#include <fstream>

#include "base/file.h"
#include "base/float_types.h"
#include "epifuse/error.h"

namespace epifuse::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  std::size_t data_offset = 0;
};

// The text behind `'key':` in the header's Python dict.
std::string_view field(std::string_view dict, std::string_view key) {
  const std::size_t at = dict.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) return {};
  dict.remove_prefix(at + key.size() + 3);
  dict.remove_prefix(std::min(dict.find_first_not_of(' '), dict.size()));
  return dict;
}

std::vector<std::int64_t> parse_shape(std::string_view text) {
  std::vector<std::int64_t> shape;
  text = text.substr(0, text.find(')'));
  for (std::size_t i = 0; i < text.size();) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), value);
    if (error == std::errc()) {
      shape.push_back(value);
      i = static_cast<std::size_t>(end - text.data());
    } else {
      ++i;
    }
  }
  return shape;
}

Header parse_header(const std::string& path, std::string_view bytes) {
  const auto fail = [&](std::string_view why) {
    return ArgumentError(fmt::format("{}: expected a .npy file, {}", path, why));
  };
  if (bytes.size() < 12 || !bytes.starts_with(kMagic)) throw fail("got no NumPy magic");
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i]));
  };
  const bool wide = byte(6) >= 2;  // version 2 has a 4-byte length
  const std::size_t start = wide ? 12 : 10;
  std::size_t length = byte(8) | byte(9) << 8;
  if (wide) length |= byte(10) << 16 | byte(11) << 24;
  if (start + length > bytes.size()) throw fail("got one that ends inside its header");
  const std::string_view dict = bytes.substr(start, length);
  Header header;
  header.data_offset = start + length;
  const std::string_view descr = field(dict, "descr"), order = field(dict, "fortran_order");
  if (descr.size() < 2 || order.empty()) throw fail("got a header without dtype or order");
  header.descr = std::string(descr.substr(1, descr.find('\'', 1) - 1));
  header.fortran_order = order.starts_with("True");
  header.shape = parse_shape(field(dict, "shape"));
  return header;
}

// Bytes of an element, and its value, of a NumPy dtype; 0 bytes when it is not one that converts.
std::size_t element_bytes(std::string_view descr) {
  if (descr == "<f4" || descr == "<i4") return 4;
  if (descr == "<f8" || descr == "<i8") return 8;
  if (descr == "<f2" || descr == "<u2") return 2;
  if (descr == "|b1" || descr == "|u1") return 1;
  return 0;
}

double element(std::string_view descr, const char* data, std::int64_t i) {
  if (descr == "<f8") {
    double x = 0;
    std::memcpy(&x, data + i * 8, 8);
    return x;
  }
  if (descr == "<f4") return load_element(data, DType::f32, i);
  if (descr == "<f2") return load_element(data, DType::f16, i);
  if (descr == "<u2") return load_element(data, DType::bf16, i);
  if (descr == "<i4") return load_element(data, DType::i32, i);
  if (descr == "<i8") return load_element(data, DType::i64, i);
  return load_element(data, DType::boolean, i);
}

void read_npy(const std::string& path, const std::string& input, std::string_view bytes,
              const std::vector<std::int64_t>& shape, const TensorView& flat) {
  const Header header = parse_header(path, bytes);
  if (header.shape != shape) {
    throw ArgumentError(
        fmt::format("{}: input {} expects shape {}, got {}", path, input, shape, header.shape));
  }
  const std::size_t size = element_bytes(header.descr);
  if (size == 0 || (header.fortran_order && shape.size() > 1)) {
    throw ArgumentError(
        fmt::format("{}: expected row-major f2, f4, f8, b1, u2 (bf16 bits), i4 or i8, got dtype "
                    "{}{}",
                    path, header.descr, header.fortran_order ? " in Fortran order" : ""));
  }
  const bool has_integers = header.descr == "<i4" || header.descr == "<i8";
  if (has_integers != is_integer(flat.dtype)) {
    throw ArgumentError(fmt::format("{}: input {} is {}, got dtype {}", path, input,
                                    name(flat.dtype), header.descr));
  }
  const std::int64_t count = flat.num_elements();
  if (bytes.size() - header.data_offset != static_cast<std::size_t>(count) * size) {
    throw ArgumentError(fmt::format("{}: expected {} bytes of data, got {}", path,
                                    static_cast<std::size_t>(count) * size,
                                    bytes.size() - header.data_offset));
  }
  for (std::int64_t i = 0; i < count; ++i) {
    store_element(flat.data, flat.dtype, i,
                  element(header.descr, bytes.data() + header.data_offset, i));
  }
}

}  // namespace

void read_tensor(const std::string& path, const std::string& input,
                 const std::vector<std::int64_t>& shape, const TensorView& flat) {
  const auto bytes = read_file(path);
  if (!bytes) throw ArgumentError(fmt::format("{}: cannot be read", path));
  if (path.ends_with(".npy")) return read_npy(path, input, *bytes, shape, flat);
  const std::size_t expected =
      static_cast<std::size_t>(flat.num_elements()) * size_bytes(flat.dtype);
  if (bytes->size() != expected) {
    throw ArgumentError(fmt::format("{}: input {} expects {} raw bytes ({} of {}), got {}", path,
                                    input, expected, shape, name(flat.dtype), bytes->size()));
  }
  std::memcpy(flat.data, bytes->data(), expected);
}

void write_npy(const std::string& path, const TensorView& view) {
  const bool as_bool = view.dtype == DType::boolean;
  std::string shape;
  for (const std::int64_t size : view.shape) shape += fmt::format("{}, ", size);
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                 as_bool ? "|b1" : "<f4", shape);
  dict.resize((dict.size() + 10 + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  dict += '\n';
  std::ofstream out(path, std::ios::binary);
  const char length[2] = {static_cast<char>(dict.size() & 0xff),
                          static_cast<char>(dict.size() >> 8)};
  out << kMagic << '\x01' << '\x00';
  out.write(length, 2);
  out << dict;
  const std::int64_t count = view.num_elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto x = static_cast<float>(load_element(view.data, view.dtype, i));
    if (as_bool) {
      out.put(x != 0 ? 1 : 0);
    } else {
      out.write(reinterpret_cast<const char*>(&x), sizeof x);
    }
  }
  if (!out.flush()) throw ArgumentError(fmt::format("{}: cannot be written", path));
}

}  // namespace epifuse::cli
