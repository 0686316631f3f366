// The folder for what epifuse keeps between processes.
#pragma once

#include <filesystem>

namespace epifuse {

// The setting `cache_folder`, else $XDG_CACHE_HOME/epifuse, $HOME/.cache/epifuse, /tmp/epifuse-UID.
std::filesystem::path default_cache_folder();

}  // namespace epifuse
