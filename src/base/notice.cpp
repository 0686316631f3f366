// What a user should know though it is no error.
#include "base/notice.h"

#include <fmt/format.h>

#include <cstdio>
#include <mutex>
#include <set>

namespace epifuse {
namespace {

// What was said already. Never destroyed: threads may still run at exit.
struct Said {
  std::mutex mutex;
  std::set<std::string> topics;
};

Said& said() {
  static Said* const all = new Said;
  return *all;
}

}  // namespace

void say_once(const std::string& about, std::string_view text) {
  {
    const std::lock_guard lock(said().mutex);
    if (!said().topics.insert(about).second) return;
  }
  std::fputs(fmt::format("epifuse: {}\n", text).c_str(), stderr);
}

}  // namespace epifuse
