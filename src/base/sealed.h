// Files of text fields that are whole and unchanged, or do not count.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace epifuse {

// A text of fields: each as its length in decimal, a newline, its bytes.
void append_field(std::string& text, std::string_view field);
void append_field(std::string& text, int number);

// Reads back what append_field wrote; ok() is false from the first field that is not there.
class FieldReader {
 public:
  explicit FieldReader(std::string_view text) : rest_(text) {}
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }
  std::string_view string();
  int number();

 private:
  std::string_view rest_;
  bool ok_ = true;
};

// `format` (a line), a checksum of all that follows, then the fields.
std::string seal(std::string_view format, std::string_view fields);
// The fields; empty when the format is another or any byte was lost, changed or added.
std::optional<std::string_view> unseal(std::string_view format, std::string_view bytes);

// A folder of sealed files, each named by its key: 64 hexadecimal digits. Any number of processes
// may share it or be killed at any moment. Where it cannot be read or written it is empty; so is an
// empty path, and a folder that others can write to, or is in a `root` that they can write to,
// which is said once.
class SealedFolder {
 public:
  // `format` is the first line of every file: words, a blank, a number. `suffix` ends its name.
  // Both must outlive this. What was used longest ago goes while all files are more than
  // `max_bytes`.
  SealedFolder(std::filesystem::path folder, std::string_view format, std::string_view suffix,
               std::uintmax_t max_bytes = std::numeric_limits<std::uintmax_t>::max(),
               std::filesystem::path root = {})
      : root_(std::move(root)),
        folder_(std::move(folder)),
        format_(format),
        suffix_(suffix),
        max_bytes_(max_bytes) {}

  struct Entry {
    std::string key, description;
    std::string fields;  // what the owner keeps
    std::uintmax_t bytes = 0;
    bool valid = false;             // else only key and bytes are known
    bool of_other_version = false;  // whole, under another number of the format; not valid
  };
  // Corrupt, truncated, absent: empty. What is there counts as used now.
  std::optional<Entry> load(const std::string& key) const;
  // Whether it is kept. A folder that cannot be written is no error: it costs the next process the
  // work again. Said once.
  bool store(const std::string& key, std::string_view description, std::string_view fields) const;
  // The same where there is no whole entry of the key yet; false, and nothing kept, where there is
  // one. Of writers at the same time one keeps its own.
  bool store_new(const std::string& key, std::string_view description,
                 std::string_view fields) const;
  std::vector<Entry> list() const;  // reads and checks every entry
  // Removes the entries, damaged ones too, and gives their number. A file is taken for an entry by
  // what it holds: others stay, whatever their names are.
  std::size_t clear() const;
  bool empty() const;
  bool is_private() const;  // else nothing is read or written
  const std::filesystem::path& folder() const { return folder_; }

 private:
  struct Named {
    std::filesystem::path path;
    std::string key;
  };
  bool write(
      const std::string& key, std::string_view description, std::string_view fields,
      const std::function<void(const std::filesystem::path&, std::string_view)>& write_file) const;
  std::vector<Named> entries() const;      // what has an entry's name
  std::vector<Named> temporaries() const;  // what has the name of a file that becomes an entry
  bool holds_entry(const Named& file) const;
  bool holds_begun_entry(const Named& file) const;
  void remove_least_recent() const;
  void remove_left_overs() const;
  std::filesystem::path file_of(const std::string& key) const;
  Entry decode(const std::string& key, std::string_view bytes) const;

  std::filesystem::path root_, folder_;  // `root_` may be empty
  std::string_view format_, suffix_;
  std::uintmax_t max_bytes_;
};

}  // namespace epifuse
