// Whole files, written so that no reader ever sees half of one.
#include "base/file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <iterator>
#include <system_error>

#include "base/descriptor.h"
#include "base/printable.h"
#include "epifuse/error.h"

namespace epifuse {
namespace {

[[noreturn]] void fail(std::string_view what, const std::filesystem::path& path, int error) {
  throw ArgumentError(fmt::format("cannot {} {}: {}", what, printable(path.native()),
                                  std::generic_category().message(error)));
}

// Returns 0 or the error number.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::fsync(fd) == 0 ? 0 : errno;
}

// Makes the rename itself durable. File systems that cannot sync a folder are left to their own.
void sync_folder(const std::filesystem::path& folder) {
  const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() >= 0) ::fsync(fd.get());
}

// Writes all of it under a temporary name; `name` then gives it its own, or an error's number.
void write_by(const std::filesystem::path& path, std::string_view bytes,
              const std::function<int(const char*)>& name) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::string temporary =
      (folder / fmt::format(".{}.XXXXXX{}", path.filename().string(), kTemporarySuffix)).string();
  const Descriptor fd(
      ::mkostemps(temporary.data(), static_cast<int>(kTemporarySuffix.size()), O_CLOEXEC));
  if (fd.get() < 0) fail("write in folder", folder, errno);
  int error = write_all(fd.get(), bytes);
  if (error == 0) error = name(temporary.c_str());
  if (error != 0) {
    ::unlink(temporary.c_str());
    fail("write", path, error);
  }
  sync_folder(folder);
}

}  // namespace

std::optional<std::string> read_file(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return std::nullopt;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return std::nullopt;
  std::string bytes{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (stream.bad()) return std::nullopt;
  return bytes;
}

void make_private_folder(const std::filesystem::path& folder) {
  std::filesystem::path partial;
  for (const std::filesystem::path& part : folder) {
    partial /= part;
    if (::mkdir(partial.c_str(), 0700) == 0 || errno == EEXIST) continue;
    const int error = errno;
    std::error_code ignored;  // a parent may exist although it may not be made (EACCES, EROFS)
    if (!std::filesystem::is_directory(partial, ignored)) fail("make folder", partial, error);
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) fail("make folder", folder, ENOTDIR);
}

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes) {
  write_by(path, bytes, [&](const char* temporary) {
    return ::rename(temporary, path.c_str()) == 0 ? 0 : errno;
  });
}

bool write_new_file(const std::filesystem::path& path, std::string_view bytes) {
  bool is_new = true;
  write_by(path, bytes, [&](const char* temporary) {
    // A link, unlike a rename, fails where there is a file. Some file systems have none.
    if (::link(temporary, path.c_str()) == 0) return ::unlink(temporary) == 0 ? 0 : errno;
    is_new = errno != EEXIST;
    if (!is_new) return ::unlink(temporary) == 0 ? 0 : errno;
    return ::rename(temporary, path.c_str()) == 0 ? 0 : errno;
  });
  return is_new;
}

std::vector<std::filesystem::path> files_with(const std::filesystem::path& folder,
                                              std::string_view suffix) {
  std::vector<std::filesystem::path> files;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().native().ends_with(suffix)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace epifuse
