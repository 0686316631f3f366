// One at a time among all threads and processes that share a cache folder.
#include "jit/key_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <thread>

#include "base/file.h"
#include "base/private_files.h"
#include "epifuse/error.h"

namespace epifuse::jit {
namespace {

namespace fs = std::filesystem;

// One file for all keys: a key's lock is on one byte of it, so that no file is left per kernel.
constexpr std::string_view kFileName = "epifuse.lock";
constexpr std::string_view kContent = "epifuse lock 1\n";  // by which `cache clear` knows it

Descriptor open_lock_file(const fs::path& folder) {
  if (folder.empty()) return Descriptor(-1);
  try {
    make_private_folder(folder);
  } catch (const Error&) {
    return Descriptor(-1);
  }
  if (why_not_private(folder)) return Descriptor(-1);
  const fs::path path = folder / kFileName;
  const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  Descriptor file(::open(path.c_str(), flags, 0600));
  const bool is_empty = file.get() >= 0 && ::lseek(file.get(), 0, SEEK_END) == 0;
  if (is_empty && ::pwrite(file.get(), kContent.data(), kContent.size(), 0) < 0) {
    return Descriptor(-1);
  }
  return file;
}

// Two keys of one byte would only wait for each other.
off_t byte_of(const std::string& key) {
  std::int64_t number = 0;
  constexpr std::size_t kDigits = 15;  // below 2^60
  std::from_chars(key.data(), key.data() + std::min(key.size(), kDigits), number, 16);
  return number;
}

KeyLock::State ask(const Descriptor& file, const std::string& key) {
  if (file.get() < 0) return KeyLock::State::unavailable;
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte_of(key);
  lock.l_len = 1;
  // OFD: a lock of this opening of the file, so that threads of one process exclude each other.
  while (::fcntl(file.get(), F_OFD_SETLK, &lock) != 0) {
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == EACCES ? KeyLock::State::busy : KeyLock::State::unavailable;
  }
  return KeyLock::State::held;
}

}  // namespace

KeyLock::KeyLock(const fs::path& folder, const std::string& key)
    : file_(open_lock_file(folder)), state_(ask(file_, key)) {}

KeyLock::KeyLock(const fs::path& folder, const std::string& key, std::chrono::milliseconds wait,
                 std::chrono::milliseconds between)
    : KeyLock(folder, key) {
  const auto end = std::chrono::steady_clock::now() + wait;
  while (state_ == State::busy && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(between);
    state_ = ask(file_, key);
  }
}

void remove_lock_file(const fs::path& folder) {
  if (folder.empty() || why_not_private(folder)) return;
  const fs::path path = folder / kFileName;
  std::error_code ignored;
  if (read_private_head(path, kContent.size()) == kContent) fs::remove(path, ignored);
}

}  // namespace epifuse::jit
