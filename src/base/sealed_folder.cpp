// A folder of sealed files: what counts as an entry, what is removed and when.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "base/file.h"
#include "base/notice.h"
#include "base/printable.h"
#include "base/private_files.h"
#include "base/sealed.h"
#include "epifuse/error.h"

namespace epifuse {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKeyChars = 64;
constexpr std::size_t kHeadBytes = 256;  // holds an entry's format, checksum and key
constexpr std::uintmax_t kMaxEntryBytes = std::uintmax_t{256} << 20;

bool is_key(std::string_view text) {
  return text.size() == kKeyChars &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Of a format's line all but its number.
std::string_view words_of(std::string_view format) {
  return format.substr(0, format.rfind(' ') + 1);
}

void count_as_used_now(const fs::path& file) {
  const timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
  // In a folder that may only be read the order of use is not kept.
  (void)::utimensat(AT_FDCWD, file.c_str(), now, AT_SYMLINK_NOFOLLOW);
}

// A rename replaces anything but a folder. One that is not empty is kept, under another name.
void move_folder_away(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(fs::symlink_status(path, ignored)) || ::rmdir(path.c_str()) == 0) return;
  std::string aside = path.string() + ".moved-XXXXXX";
  if (::mkdtemp(aside.data()) != nullptr) fs::rename(path, aside, ignored);
}

}  // namespace

fs::path SealedFolder::file_of(const std::string& key) const {
  return folder_ / (key + std::string(suffix_));
}

bool SealedFolder::is_private() const {
  if (folder_.empty()) return false;
  for (const fs::path& folder : {root_, folder_}) {
    const auto why_not = folder.empty() ? std::nullopt : why_not_private(folder);
    if (!why_not) continue;
    say_once(folder.string() + " is not private",
             fmt::format("the cache folder {} is not used: it {}", printable(folder.native()),
                         *why_not));
    return false;
  }
  return true;
}

SealedFolder::Entry SealedFolder::decode(const std::string& key, std::string_view bytes) const {
  Entry entry{key, "", "", bytes.size(), false};
  const std::optional<std::string_view> whole = unseal(format_, bytes);
  if (!whole) {
    const std::string_view first_line = bytes.substr(0, bytes.find('\n') + 1);
    entry.of_other_version = first_line.starts_with(words_of(format_)) && unseal(first_line, bytes);
    return entry;
  }
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
  if (!is_private()) return std::nullopt;
  const fs::path file = file_of(key);
  const std::optional<std::string> bytes = read_private_file(file, kMaxEntryBytes);
  if (!bytes) return std::nullopt;
  Entry entry = decode(key, *bytes);
  if (!entry.valid) return std::nullopt;
  count_as_used_now(file);
  return entry;
}

bool SealedFolder::store(const std::string& key, std::string_view description,
                         std::string_view fields) const {
  return write(key, description, fields, [](const fs::path& file, std::string_view bytes) {
    move_folder_away(file);
    write_file_atomically(file, bytes);
  });
}

bool SealedFolder::store_new(const std::string& key, std::string_view description,
                             std::string_view fields) const {
  bool is_new = true;
  write(key, description, fields, [&](const fs::path& file, std::string_view bytes) {
    if (write_new_file(file, bytes)) return;
    is_new = !load(key);
    if (!is_new) return;
    move_folder_away(file);
    write_file_atomically(file, bytes);  // what is there is not whole
  });
  return is_new;
}

bool SealedFolder::write(
    const std::string& key, std::string_view description, std::string_view fields,
    const std::function<void(const fs::path&, std::string_view)>& write_file) const {
  if (!is_private()) return false;
  std::string all;
  append_field(all, key);
  append_field(all, description);
  all += fields;
  bool is_kept = false;
  try {
    make_private_folder(folder_);
    if (!is_private()) return false;  // somebody else made it
    write_file(file_of(key), seal(format_, all));
    is_kept = true;
  } catch (const Error& error) {
    say_once(folder_.string() + " cannot be written",
             fmt::format("the cache keeps nothing new: {}", error.what()));
  }
  remove_left_overs();
  remove_least_recent();
  return is_kept;
}

std::vector<SealedFolder::Named> SealedFolder::entries() const {
  std::vector<Named> found;
  for (const fs::path& file : files_with(folder_, suffix_)) {
    std::string name = file.filename().string();
    name.resize(name.size() - suffix_.size());
    if (is_key(name)) found.push_back({file, std::move(name)});
  }
  return found;
}

std::vector<SealedFolder::Named> SealedFolder::temporaries() const {
  std::vector<Named> found;
  for (const fs::path& file : files_with(folder_, kTemporarySuffix)) {
    std::optional<std::string> name = target_of_temporary(file.filename().string());
    if (!name || !name->ends_with(suffix_)) continue;
    name->resize(name->size() - suffix_.size());
    if (is_key(*name)) found.push_back({file, *std::move(name)});
  }
  return found;
}

// A damaged entry still has one of both: its format's words, whatever the number, or its key. One
// that lost every byte has nothing that could be of others.
bool SealedFolder::holds_entry(const Named& file) const {
  const std::optional<std::string> head = read_private_head(file.path, kHeadBytes);
  if (!head) return false;
  return head->empty() || head->starts_with(words_of(format_)) ||
         head->find(file.key) != std::string::npos;
}

// Its writer may have been killed before the first byte.
bool SealedFolder::holds_begun_entry(const Named& file) const {
  const std::optional<std::string> head = read_private_head(file.path, kHeadBytes);
  return head && (format_.starts_with(*head) || holds_entry(file));
}

std::vector<SealedFolder::Entry> SealedFolder::list() const {
  std::vector<Entry> listed;
  if (!is_private()) return listed;
  for (const Named& file : entries()) {
    struct stat status {};
    if (::lstat(file.path.c_str(), &status) != 0) continue;  // removed since it was found
    const auto bytes = read_private_file(file.path, kMaxEntryBytes);
    listed.push_back(decode(file.key, bytes.value_or("")));
    if (S_ISREG(status.st_mode)) listed.back().bytes = static_cast<std::uintmax_t>(status.st_size);
  }
  return listed;
}

std::size_t SealedFolder::clear() const {
  std::size_t num_removed = 0;
  if (!is_private()) return num_removed;
  std::error_code ignored;
  for (const Named& file : entries()) {
    if (holds_entry(file) && fs::remove(file.path, ignored)) ++num_removed;
  }
  // A writer at work now only loses its entry.
  for (const Named& file : temporaries()) {
    if (holds_begun_entry(file)) fs::remove(file.path, ignored);
  }
  return num_removed;
}

void SealedFolder::remove_left_overs() const {
  std::error_code ignored;
  for (const Named& file : temporaries()) {
    if (is_left_over(file.path) && holds_begun_entry(file)) fs::remove(file.path, ignored);
  }
}

void SealedFolder::remove_least_recent() const {
  struct Use {
    std::int64_t seconds, nanoseconds;
    std::uintmax_t bytes;
    Named file;
  };
  std::vector<Use> uses;
  std::uintmax_t num_bytes = 0;
  for (Named& file : entries()) {
    struct stat status {};
    if (::lstat(file.path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    const auto bytes = static_cast<std::uintmax_t>(status.st_size);
    num_bytes += bytes;
    uses.push_back({status.st_mtim.tv_sec, status.st_mtim.tv_nsec, bytes, std::move(file)});
  }
  if (num_bytes <= max_bytes_) return;
  std::sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) {
    return std::tie(a.seconds, a.nanoseconds) < std::tie(b.seconds, b.nanoseconds);
  });
  std::error_code ignored;
  for (const Use& use : uses) {
    if (num_bytes <= max_bytes_) return;
    if (holds_entry(use.file) && fs::remove(use.file.path, ignored)) num_bytes -= use.bytes;
  }
}

bool SealedFolder::empty() const { return !is_private() || entries().empty(); }

}  // namespace epifuse
