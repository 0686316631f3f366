// The folder of compiled kernels: keys, and entries that are whole and unchanged or do not count.
#include <fmt/format.h>

#include <charconv>

#include "base/cache_folder.h"
#include "base/hash.h"
#include "base/printable.h"
#include "base/settings.h"
#include "codegen/source_text.h"
#include "epifuse/error.h"
#include "jit/compile_inputs.h"
#include "jit/jit.h"
#include "jit/key_lock.h"

namespace epifuse::jit {
namespace {

namespace fs = std::filesystem;

// First line of every entry; a new layout gets a new number and thereby new keys.
constexpr std::string_view kFormat = "epifuse cubin 1\n";
constexpr std::string_view kSuffix = ".cubin";
// Some ten thousand kernels.
constexpr std::uintmax_t kDefaultMaxBytes = std::uintmax_t{1} << 30;

std::string encode(const Binary& binary) {
  std::string fields;
  append_field(fields, binary.registers);
  append_field(fields, binary.spill_bytes);
  append_field(fields, binary.stack_bytes);
  append_field(fields, binary.log);
  append_field(fields, std::string_view(binary.cubin.data(), binary.cubin.size()));
  append_field(fields, static_cast<int>(binary.problems.size()));
  for (const std::string& problem : binary.problems) append_field(fields, problem);
  return fields;
}

std::optional<Binary> decode(std::string_view text) {
  FieldReader fields(text);
  Binary binary;
  binary.registers = fields.number();
  binary.spill_bytes = fields.number();
  binary.stack_bytes = fields.number();
  binary.log = fields.string();
  const std::string_view cubin = fields.string();
  binary.cubin.assign(cubin.begin(), cubin.end());
  const int num_problems = fields.number();
  for (int i = 0; i < num_problems && fields.ok(); ++i) {
    binary.problems.emplace_back(fields.string());
  }
  if (!fields.ok() || !fields.at_end()) return std::nullopt;
  return binary;
}

// What a unit stands for: "" a byte, "K" 1024 of them; 0 for other text.
std::uintmax_t unit_bytes(std::string_view unit) {
  if (unit.empty()) return 1;
  constexpr std::string_view kUnits = "KMG";
  const std::size_t power = kUnits.find(unit);
  return unit.size() == 1 && power != kUnits.npos ? std::uintmax_t{1} << (10 * (power + 1)) : 0;
}

std::uintmax_t max_bytes() {
  const std::string text = Settings::read().cache_size;
  if (text.empty()) return kDefaultMaxBytes;
  std::uintmax_t number = 0, bytes = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, number);
  const std::uintmax_t unit = unit_bytes({after, static_cast<std::size_t>(end - after)});
  if (error != std::errc() || unit == 0 || __builtin_mul_overflow(number, unit, &bytes)) {
    throw ArgumentError(fmt::format(
        "EPIFUSE_CACHE_SIZE must be a number of bytes, as 500000000, 500K, 64M or 2G, not \"{}\"",
        printable(text)));
  }
  return bytes;
}

}  // namespace

std::string_view epifuse_version() { return EPIFUSE_VERSION; }

std::string cache_key(const codegen::KernelSource& source, std::string_view toolchain) {
  std::string all;
  append_field(all, kFormat);
  append_field(all, epifuse_version());
  append_field(all, toolchain);
  append_field(all, embedded_headers_digest());
  for (const std::string& option : compile_options(source.arch)) append_field(all, option);
  append_field(all, source.entry);
  append_field(all, codegen::without_comments(source.text));
  return sha256_hex(all);
}

KernelCache::KernelCache(fs::path folder)
    : files_(std::move(folder), kFormat, kSuffix, max_bytes()) {}

fs::path KernelCache::default_folder() { return default_cache_folder(); }

std::optional<Binary> KernelCache::load(const std::string& key) const {
  const auto entry = files_.load(key);
  return entry ? decode(entry->fields) : std::nullopt;
}

void KernelCache::store(const std::string& key, const Binary& binary,
                        std::string_view description) const {
  files_.store(key, description, encode(binary));
}

std::vector<KernelCache::Entry> KernelCache::list() const {
  std::vector<Entry> entries;
  for (const SealedFolder::Entry& entry : files_.list()) {
    const bool valid = entry.valid && decode(entry.fields);
    entries.push_back(
        {entry.key, valid ? entry.description : "", entry.bytes, valid, entry.of_other_version});
  }
  return entries;
}

std::size_t KernelCache::clear() const {
  remove_lock_file(folder());
  return files_.clear();
}

}  // namespace epifuse::jit
