// Entry points of the driver of which nothing is expected: they succeed and do nothing.
#include "jit/driver_api.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

namespace epifuse::jit {

extern "C" {
#define EPIFUSE_DRIVER_CALL(member, symbol, parameters) \
  [[gnu::weak]] CuResult symbol parameters { return kCudaSuccess; }
#include "jit/driver.def"
#undef EPIFUSE_DRIVER_CALL
}

}  // namespace epifuse::jit
