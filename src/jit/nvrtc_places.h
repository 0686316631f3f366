// Where NVRTC may be on a machine.
#pragma once

#include <string>
#include <vector>

#include "base/settings.h"

namespace epifuse::jit {

// Names for dlopen, in the order to try: existing files, except for bare names (left to the loader)
// and the setting `nvrtc`, which is the only place when it is given. `looked_in`, when given, gets
// every place in the words for a message: also the patterns and files that match nothing.
std::vector<std::string> nvrtc_places(const Settings& settings,
                                      std::vector<std::string>* looked_in = nullptr);

}  // namespace epifuse::jit
