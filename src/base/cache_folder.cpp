// The folder for what epifuse keeps between processes.
#include "base/cache_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/settings.h"

namespace epifuse {

namespace fs = std::filesystem;

fs::path default_cache_folder() {
  const Settings settings = Settings::read();
  if (!settings.cache_folder.empty()) return settings.cache_folder;
  if (!settings.xdg_cache_home.empty()) return fs::path(settings.xdg_cache_home) / "epifuse";
  if (!settings.home.empty()) return fs::path(settings.home) / ".cache" / "epifuse";
  return fmt::format("/tmp/epifuse-{}", geteuid());
}

}  // namespace epifuse
