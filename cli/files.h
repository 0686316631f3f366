// Files that the command line reads and writes: bounded, whole, and with a reason when they fail.
#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

namespace epifuse::cli {

// Results, documents: files that people keep in a repository.
constexpr std::size_t kMaxDocumentBytes = std::size_t{256} << 20;

// All bytes of a file of at most `max_bytes`; pipes and devices are read that far. Throws
// ArgumentError: why it cannot be read, or how large it is.
std::string read_input(const std::filesystem::path& path, std::size_t max_bytes);

// Makes the folder and its missing parents. Throws ArgumentError.
void make_output_folder(const std::filesystem::path& folder);

// A file that is written under a temporary name and gets its own in keep(); without keep() nothing
// is left. Links are followed. A device, a pipe, and an open file of this process as /dev/stdout
// names it, are written into. All members throw ArgumentError.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  void write(std::string_view bytes);
  void keep();

 private:
  [[noreturn]] void fail(int error) const;
  int open_temporary();
  std::filesystem::path path_, target_;  // `target_`: behind all links
  std::string temporary_;                // empty for what is written into
  std::FILE* file_ = nullptr;
};

// All of such a file.
void write_output(const std::filesystem::path& path, std::string_view bytes);

// Throws ArgumentError where no such file can be written, or no file in such a folder (`out/`):
// before something is measured for it.
void check_writable(const std::filesystem::path& path);

// Throws ArgumentError where the cache folder is there and cannot be read: elsewhere it would count
// as an empty one.
void check_cache_readable(const std::filesystem::path& folder);

}  // namespace epifuse::cli
