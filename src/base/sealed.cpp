// Texts of fields under a checksum.
#include "base/sealed.h"

#include <fmt/core.h>

#include <charconv>

#include "base/hash.h"

namespace epifuse {
namespace {

constexpr std::size_t kChecksumChars = 64;

}  // namespace

void append_field(std::string& text, std::string_view field) {
  text += fmt::format("{}\n", field.size());
  text += field;
}

void append_field(std::string& text, int number) { append_field(text, std::to_string(number)); }

std::string_view FieldReader::string() {
  std::size_t size = 0;
  const char* const end = rest_.data() + rest_.size();
  const auto [after, error] = std::from_chars(rest_.data(), end, size);
  const bool complete = error == std::errc() && after != end && *after == '\n' &&
                        size <= static_cast<std::size_t>(end - after - 1);
  if (!complete) {
    ok_ = false;
    return {};
  }
  const std::string_view field(after + 1, size);
  rest_ = std::string_view(field.end(), end);
  return field;
}

int FieldReader::number() {
  const std::string_view digits = string();
  int value = 0;
  const auto [after, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || after != digits.data() + digits.size()) ok_ = false;
  return value;
}

std::string seal(std::string_view format, std::string_view fields) {
  return fmt::format("{}{}\n{}", format, sha256_hex(fields), fields);
}

std::optional<std::string_view> unseal(std::string_view format, std::string_view bytes) {
  if (!bytes.starts_with(format)) return std::nullopt;
  bytes.remove_prefix(format.size());
  if (bytes.size() <= kChecksumChars || bytes[kChecksumChars] != '\n') return std::nullopt;
  const std::string_view checksum = bytes.substr(0, kChecksumChars);
  bytes.remove_prefix(kChecksumChars + 1);
  if (sha256_hex(bytes) != checksum) return std::nullopt;
  return bytes;
}

}  // namespace epifuse
