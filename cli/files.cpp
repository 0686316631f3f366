#include "files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>
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

ArgumentError cannot_write(const std::filesystem::path& path, int error) {
  return ArgumentError(
      fmt::format("{}: cannot be written: {}", printable(path.native()), reason(error)));
}

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// Where the bytes for a path go, and the permissions of a regular file there.
struct Place {
  std::filesystem::path path;
  bool is_direct = false;  // it gets the bytes, and nothing takes its name
  std::optional<mode_t> permissions = {};
  int descriptor = -1;  // of an open file of this process, which gets them where it stands
};

// The open file of this process that a name in /proc stands for, as that behind /dev/stdout does.
std::optional<int> own_descriptor(const std::filesystem::path& name) {
  std::error_code error;
  const auto folder = std::filesystem::canonical(name.parent_path(), error);
  if (error || folder != fmt::format("/proc/{}/fd", ::getpid())) return std::nullopt;
  const std::string text = name.filename().native();
  int number = -1;
  const auto [end, not_read] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = not_read == std::errc() && end == text.data() + text.size();
  return is_number ? std::optional(number) : std::nullopt;
}

// Of the name behind all links, whether there is a file or not.
Place behind_links(const std::filesystem::path& path) {
  constexpr int kMostLinks = 40;  // as Linux
  std::filesystem::path name = path;
  for (int i = 0; i <= kMostLinks; ++i) {
    if (const auto number = own_descriptor(name)) {
      return {.path = path, .is_direct = true, .descriptor = *number};
    }
    std::error_code ignored;
    if (!std::filesystem::is_symlink(std::filesystem::symlink_status(name, ignored))) return {name};
    const std::filesystem::path target = std::filesystem::read_symlink(name, ignored);
    name = name.parent_path() / target;  // an absolute target stands alone
  }
  throw cannot_write(path, ELOOP);
}

Place place_of(const std::filesystem::path& path) {
  struct stat about {};
  const bool exists = ::stat(path.c_str(), &about) == 0;
  if (exists && S_ISSOCK(about.st_mode)) throw cannot_write(path, ENXIO);
  Place place = behind_links(path);
  if (place.is_direct || !exists || S_ISDIR(about.st_mode)) return place;
  if (!S_ISREG(about.st_mode)) return {path, true};
  place.permissions = about.st_mode & 07777;
  return place;
}

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
  const Place place = place_of(path_);
  target_ = place.path;
  if (place.descriptor >= 0) std::fflush(nullptr);  // what was printed stands before it
  const int fd = place.descriptor >= 0 ? ::fcntl(place.descriptor, F_DUPFD_CLOEXEC, 0)
                 : place.is_direct
                     ? ::open(target_.c_str(), O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC)
                     : open_temporary();
  if (fd < 0) fail(errno);
  if (place.permissions && !place.is_direct) (void)::fchmod(fd, *place.permissions);
  file_ = ::fdopen(fd, "wb");
  if (file_ != nullptr) return;
  const int error = errno;
  ::close(fd);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  fail(error);
}

// Negative, with `errno`, where there is none.
int OutputFile::open_temporary() {
  const auto folder =
      target_.has_parent_path() ? target_.parent_path() : std::filesystem::path(".");
  // Not mkstemp: the file gets the permissions that the user's umask leaves, as any output does.
  for (int attempt = 0;; ++attempt) {
    std::string name =
        (folder / fmt::format(".epifuse.{}.{}{}", ::getpid(), attempt, kTemporarySuffix)).native();
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) temporary_ = std::move(name);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
}

OutputFile::~OutputFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::fail(int error) const { throw cannot_write(path_, error); }

void OutputFile::write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail(errno);
}

void OutputFile::keep() {
  const bool is_direct = temporary_.empty();
  if (std::fflush(file_) != 0) fail(errno);
  // Pipes and most devices cannot be synced.
  if (::fsync(::fileno(file_)) != 0 && !(is_direct && (errno == EINVAL || errno == EROFS))) {
    fail(errno);
  }
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail(errno);
  if (is_direct) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail(errno);
  temporary_.clear();
}

void write_output(const std::filesystem::path& path, std::string_view bytes) {
  OutputFile file(path);
  file.write(bytes);
  file.keep();
}

void check_writable(const std::filesystem::path& path) {
  std::error_code ignored;
  if (path.has_filename() && std::filesystem::is_directory(path, ignored)) {
    throw cannot_write(path, EISDIR);
  }
  const Place place = place_of(path);
  if (!place.is_direct) {
    const OutputFile probe(path);
  } else if (::access(place.path.c_str(), W_OK) != 0) {  // opening a pipe is seen by its reader
    throw cannot_write(path, errno);
  }
}

void check_cache_readable(const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::directory_iterator entries(folder, error);
  if (!error || error == std::errc::no_such_file_or_directory) return;
  throw ArgumentError(fmt::format("the cache folder {} cannot be read: {}",
                                  printable(folder.native()), error.message()));
}

}  // namespace epifuse::cli
