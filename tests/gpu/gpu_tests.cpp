// The corpus on the CUDA backend, against the float64 reference.
#include <cstdio>

#include "tests/common/corpus_run.h"
#include "tests/gpu/device_memory.h"

int main(int argc, char** argv) {
  std::string why;
  const auto device = epifuse::cuda::Device::current(&why);
  if (device == nullptr) {
    std::fprintf(stderr, "gpu_tests: %s\n", why.c_str());
    return 1;
  }
  std::printf("%s, driver %s\n", device->info().name.c_str(),
              epifuse::cuda::version_text(device->info().driver_version).c_str());
  epifuse::testing::DeviceMemory memory(device);
  return epifuse::testing::run_tier(epifuse::Target::cuda(), memory, argc, argv);
}
