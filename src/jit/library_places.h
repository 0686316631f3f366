// Where a library of the CUDA toolkit may be on a machine: beside this library, on the loader's
// path, in the toolkit's folders, in packages of python3.
#pragma once

#include <string>
#include <vector>

#include "base/settings.h"

namespace epifuse::jit {

struct LibraryQuery {
  std::string name;                        // "libnvrtc"
  std::string setting, variable;           // a path the user gave, and where: "EPIFUSE_NVRTC"
  std::vector<std::string> folders_first;  // looked in before the loader's path
};

// Names for dlopen, in the order to try: existing files, except for bare names (left to the loader)
// and the setting, which is the only place when it is given. `looked_in`, when given, gets every
// place in the words for a message: also the patterns and files that match nothing.
std::vector<std::string> library_places(const LibraryQuery& query, const Settings& settings,
                                        std::vector<std::string>* looked_in = nullptr);

}  // namespace epifuse::jit
