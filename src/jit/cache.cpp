// The folder of compiled kernels: keys, and entries that are whole and unchanged or do not count.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/sealed.h"
#include "base/settings.h"
#include "codegen/source_text.h"
#include "epifuse/error.h"
#include "jit/compile_inputs.h"
#include "jit/jit.h"

namespace epifuse::jit {
namespace {

namespace fs = std::filesystem;

// First line of every entry; a new layout gets a new number and thereby new keys.
constexpr std::string_view kFormat = "epifuse cubin 1\n";
constexpr std::string_view kSuffix = ".cubin";

struct Stored {
  std::string description;
  Binary binary;
};

std::string encode(const std::string& key, const Binary& binary, std::string_view description) {
  std::string fields;
  append_field(fields, key);
  append_field(fields, description);
  append_field(fields, binary.registers);
  append_field(fields, binary.spill_bytes);
  append_field(fields, binary.stack_bytes);
  append_field(fields, binary.log);
  append_field(fields, std::string_view(binary.cubin.data(), binary.cubin.size()));
  append_field(fields, static_cast<int>(binary.problems.size()));
  for (const std::string& problem : binary.problems) append_field(fields, problem);
  return seal(kFormat, fields);
}

std::optional<Stored> decode(const std::string& key, std::string_view bytes) {
  const std::optional<std::string_view> whole = unseal(kFormat, bytes);
  if (!whole) return std::nullopt;
  FieldReader fields(*whole);
  if (fields.string() != key) return std::nullopt;  // a file under another name
  Stored stored;
  stored.description = fields.string();
  stored.binary.registers = fields.number();
  stored.binary.spill_bytes = fields.number();
  stored.binary.stack_bytes = fields.number();
  stored.binary.log = fields.string();
  const std::string_view cubin = fields.string();
  stored.binary.cubin.assign(cubin.begin(), cubin.end());
  const int num_problems = fields.number();
  for (int i = 0; i < num_problems && fields.ok(); ++i) {
    stored.binary.problems.emplace_back(fields.string());
  }
  if (!fields.ok() || !fields.at_end()) return std::nullopt;
  return stored;
}

fs::path file_of_key(const fs::path& folder, const std::string& key) {
  return folder / (key + std::string(kSuffix));
}

// Anybody may make a folder in /tmp: one of that name counts only when nobody else can write to it.
fs::path own_temporary_folder() {
  const fs::path folder = fmt::format("/tmp/epifuse-{}", geteuid());
  try {
    make_private_folder(folder);
  } catch (const Error&) {
    return {};
  }
  struct stat status {};
  const bool ours = lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
                    status.st_uid == geteuid() && (status.st_mode & 0022) == 0;
  return ours ? folder : fs::path();
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

KernelCache::KernelCache(fs::path folder) : folder_(std::move(folder)) {}

fs::path KernelCache::default_folder() {
  const Settings settings = Settings::read();
  if (!settings.cache_folder.empty()) return settings.cache_folder;
  if (!settings.xdg_cache_home.empty()) return fs::path(settings.xdg_cache_home) / "epifuse";
  if (!settings.home.empty()) return fs::path(settings.home) / ".cache" / "epifuse";
  return own_temporary_folder();
}

std::optional<Binary> KernelCache::load(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const std::optional<std::string> bytes = read_file(file_of_key(folder_, key));
  if (!bytes) return std::nullopt;
  std::optional<Stored> stored = decode(key, *bytes);
  if (!stored) return std::nullopt;
  return std::move(stored->binary);
}

void KernelCache::store(const std::string& key, const Binary& binary,
                        std::string_view description) const {
  if (folder_.empty()) return;
  try {
    make_private_folder(folder_);
    write_file_atomically(file_of_key(folder_, key), encode(key, binary, description));
  } catch (const Error&) {
    // A folder that cannot be written only costs the next process a compilation.
  }
}

std::vector<KernelCache::Entry> KernelCache::list() const {
  std::vector<Entry> entries;
  for (const fs::path& file : files_with(folder_, kSuffix)) {
    const std::optional<std::string> bytes = read_file(file);
    if (!bytes) continue;  // removed since it was listed
    const std::string key = file.stem().string();
    const std::optional<Stored> stored = decode(key, *bytes);
    entries.push_back({key, stored ? stored->description : "", bytes->size(), stored.has_value()});
  }
  return entries;
}

std::size_t KernelCache::clear() const {
  std::size_t num_removed = 0;
  std::error_code ignored;
  for (const fs::path& file : files_with(folder_, kSuffix)) {
    if (fs::remove(file, ignored)) ++num_removed;
  }
  // Left behind by writers that were killed; a writer at work now only loses its entry.
  for (const fs::path& file : files_with(folder_, kTemporarySuffix)) fs::remove(file, ignored);
  return num_removed;
}

}  // namespace epifuse::jit
