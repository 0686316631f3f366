// The table of backends.
#include <array>

#include "backends/backend.h"
#include "backends/cpu/backend.h"
#include "backends/cuda/backend.h"

namespace epifuse::backends {
namespace {

#define EPIFUSE_BACKEND(name, kind, prepare, detect) \
  Backend{#name, DeviceKind::kind, prepare, detect},
constexpr std::array kBackends = {
#include "backends/backends.def"
};
#undef EPIFUSE_BACKEND

}  // namespace

std::span<const Backend> all_backends() { return kBackends; }

}  // namespace epifuse::backends
