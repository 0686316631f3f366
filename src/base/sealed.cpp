// Files of text fields that are whole and unchanged, or do not count.
#include "base/sealed.h"

#include <fmt/core.h>

#include <charconv>

#include "base/file.h"
#include "base/hash.h"
#include "epifuse/error.h"

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

namespace fs = std::filesystem;

fs::path SealedFolder::file_of(const std::string& key) const {
  return folder_ / (key + std::string(suffix_));
}

SealedFolder::Entry SealedFolder::decode(const std::string& key, std::string_view bytes) const {
  Entry entry{key, "", "", bytes.size(), false};
  const std::optional<std::string_view> whole = unseal(format_, bytes);
  if (!whole) return entry;
  FieldReader fields(*whole);
  if (fields.string() != key) return entry;  // a file under another name
  const std::string_view description = fields.string();
  if (!fields.ok()) return entry;
  entry.description = description;
  entry.fields = fields.rest();
  entry.valid = true;
  return entry;
}

std::optional<SealedFolder::Entry> SealedFolder::load(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const std::optional<std::string> bytes = read_file(file_of(key));
  if (!bytes) return std::nullopt;
  Entry entry = decode(key, *bytes);
  if (!entry.valid) return std::nullopt;
  return entry;
}

void SealedFolder::store(const std::string& key, std::string_view description,
                         std::string_view fields) const {
  if (folder_.empty()) return;
  std::string all;
  append_field(all, key);
  append_field(all, description);
  all += fields;
  try {
    make_private_folder(folder_);
    write_file_atomically(file_of(key), seal(format_, all));
  } catch (const Error&) {
    // See the header.
  }
}

std::vector<SealedFolder::Entry> SealedFolder::list() const {
  std::vector<Entry> entries;
  for (const fs::path& file : files_with(folder_, suffix_)) {
    const std::optional<std::string> bytes = read_file(file);
    if (!bytes) continue;  // removed since it was listed
    entries.push_back(decode(file.stem().string(), *bytes));
  }
  return entries;
}

std::size_t SealedFolder::clear() const {
  std::size_t num_removed = 0;
  std::error_code ignored;
  for (const fs::path& file : files_with(folder_, suffix_)) {
    if (fs::remove(file, ignored)) ++num_removed;
  }
  // Left behind by writers that were killed; a writer at work now only loses its entry.
  for (const fs::path& file : files_with(folder_, kTemporarySuffix)) fs::remove(file, ignored);
  return num_removed;
}

bool SealedFolder::empty() const { return files_with(folder_, suffix_).empty(); }

}  // namespace epifuse
