// Where NVRTC may be on a machine.
#include "jit/nvrtc_places.h"

#include "jit/library_places.h"

namespace epifuse::jit {

std::vector<std::string> nvrtc_places(const Settings& settings,
                                      std::vector<std::string>* looked_in) {
  const LibraryQuery query{"libnvrtc", settings.nvrtc, "EPIFUSE_NVRTC", {}};
  return library_places(query, settings, looked_in);
}

}  // namespace epifuse::jit
