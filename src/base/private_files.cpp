// Folders and files of which only this user can be the author.
#include "base/private_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "base/descriptor.h"
#include "base/file.h"

namespace epifuse {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRandomChars = 6;  // mkostemps replaces as many
constexpr std::time_t kLeftOverSeconds = 3600;

struct Opened {
  Descriptor fd;
  std::uintmax_t num_bytes;
};

std::optional<Opened> open_private(const fs::path& path) {
  // O_NONBLOCK: opening a pipe that has no writer would wait for one.
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC));
  struct stat status {};
  if (fd.get() < 0 || ::fstat(fd.get(), &status) != 0) return std::nullopt;
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid()) return std::nullopt;
  return Opened{std::move(fd), static_cast<std::uintmax_t>(status.st_size)};
}

std::optional<std::string> read_all(const Opened& file, std::uintmax_t num_bytes) {
  std::string bytes(num_bytes, '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.fd.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace

std::optional<std::string> why_not_private(const fs::path& folder) {
  struct stat link {
  }, status{};
  if (::lstat(folder.c_str(), &link) != 0) return std::nullopt;
  // Whoever owns a link decides where it leads.
  if (link.st_uid != ::geteuid()) return fmt::format("belongs to user {}", link.st_uid);
  if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return std::nullopt;
  if (status.st_uid != ::geteuid()) return fmt::format("belongs to user {}", status.st_uid);
  if ((status.st_mode & 0022) != 0) {
    return fmt::format("can be written by other users (mode {:04o}; `chmod go-w` mends it)",
                       status.st_mode & 07777);
  }
  return std::nullopt;
}

std::optional<std::string> read_private_file(const fs::path& path, std::uintmax_t max_bytes) {
  const std::optional<Opened> file = open_private(path);
  if (!file || file->num_bytes > max_bytes) return std::nullopt;
  return read_all(*file, file->num_bytes);
}

std::optional<std::string> read_private_head(const fs::path& path, std::uintmax_t num_bytes) {
  const std::optional<Opened> file = open_private(path);
  if (!file) return std::nullopt;
  return read_all(*file, std::min(num_bytes, file->num_bytes));
}

std::optional<std::string> target_of_temporary(std::string_view file_name) {
  const std::size_t num_behind = 1 + kRandomChars + kTemporarySuffix.size();
  if (file_name.size() <= 1 + num_behind) return std::nullopt;
  if (!file_name.starts_with('.') || !file_name.ends_with(kTemporarySuffix)) return std::nullopt;
  const std::string_view name = file_name.substr(1, file_name.size() - 1 - num_behind);
  if (file_name[1 + name.size()] != '.') return std::nullopt;
  return std::string(name);
}

bool is_left_over(const fs::path& temporary) {
  struct stat status {};
  if (::lstat(temporary.c_str(), &status) != 0) return false;
  return status.st_mtim.tv_sec < std::time(nullptr) - kLeftOverSeconds;
}

}  // namespace epifuse
