#include "files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/printable.h"
#include "epifuse/error.h"

namespace epifuse::cli {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

std::string reason(int error) { return std::generic_category().message(error); }

ArgumentError cannot_read(const std::filesystem::path& path, int error) {
  return ArgumentError(
      fmt::format("{}: cannot be read: {}", printable(path.native()), reason(error)));
}

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

std::string read_input(const std::filesystem::path& path, std::size_t max_bytes) {
  const auto too_large = [&](const std::string& size) {
    return ArgumentError(fmt::format("{}: expected at most {} bytes, got {}",
                                     printable(path.native()), max_bytes, size));
  };
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rbe"));
  if (!file) throw cannot_read(path, errno);
  struct stat about {};
  if (::fstat(::fileno(file.get()), &about) != 0) throw cannot_read(path, errno);
  if (S_ISDIR(about.st_mode)) throw cannot_read(path, EISDIR);
  const auto size = static_cast<std::size_t>(std::max<off_t>(about.st_size, 0));
  if (S_ISREG(about.st_mode) && size > max_bytes) throw too_large(fmt::format("{}", size));
  std::string bytes;
  if (S_ISREG(about.st_mode)) bytes.reserve(size);
  while (bytes.size() <= max_bytes) {  // one byte beyond the limit tells that there are more
    const std::size_t before = bytes.size();
    bytes.resize(before + std::min(kReadBytes, max_bytes + 1 - before));
    const std::size_t got = std::fread(bytes.data() + before, 1, bytes.size() - before, file.get());
    const bool ended = before + got < bytes.size();
    bytes.resize(before + got);
    if (std::ferror(file.get()) != 0) throw cannot_read(path, errno);
    if (ended) return bytes;
  }
  throw too_large("more");
}

void make_output_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && !std::filesystem::is_directory(folder, error) && !error) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (error) {
    throw ArgumentError(
        fmt::format("cannot make folder '{}': {}", printable(folder.native()), error.message()));
  }
}

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)) {
  const auto folder = path_.has_parent_path() ? path_.parent_path() : std::filesystem::path(".");
  int fd = -1;
  // Not mkstemp: the file gets the permissions that the user's umask leaves, as any output does.
  for (int attempt = 0; fd < 0; ++attempt) {
    temporary_ =
        (folder / fmt::format(".epifuse.{}.{}{}", ::getpid(), attempt, kTemporarySuffix)).native();
    fd = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) {
      const int error = errno;
      temporary_.clear();
      fail(error);
    }
  }
  file_ = ::fdopen(fd, "wb");
  if (file_ != nullptr) return;
  const int error = errno;
  ::close(fd);
  ::unlink(temporary_.c_str());
  fail(error);
}

OutputFile::~OutputFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::fail(int error) const {
  throw ArgumentError(
      fmt::format("{}: cannot be written: {}", printable(path_.native()), reason(error)));
}

void OutputFile::write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail(errno);
}

void OutputFile::keep() {
  if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0) fail(errno);
  const int closed = std::fclose(std::exchange(file_, nullptr));
  if (closed != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) fail(errno);
  temporary_.clear();
}

void check_writable(const std::filesystem::path& path) {
  std::error_code ignored;
  if (path.has_filename() && std::filesystem::is_directory(path, ignored)) {
    throw ArgumentError(
        fmt::format("{}: cannot be written: {}", printable(path.native()), reason(EISDIR)));
  }
  const OutputFile probe(path);
}

}  // namespace epifuse::cli
