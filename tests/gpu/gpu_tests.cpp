// The corpus on the CUDA backend, against the float64 reference.
#include <cstdio>
#include <vector>

#include "backends/cuda/memory.h"
#include "tests/common/corpus_run.h"

namespace epifuse::testing {
namespace {

// Copies of the host tensors in device memory, gaps between their rows included.
class DeviceMemory : public Memory {
 public:
  explicit DeviceMemory(std::shared_ptr<const cuda::Device> device) : device_(std::move(device)) {}

  TensorView place(HostTensor& tensor) override {
    const std::size_t size = tensor.bytes().size();
    cuda::DeviceBuffer& buffer = buffers_.emplace_back(device_, size);
    if (size > 0) buffer.copy_from_host(tensor.bytes().data(), size);
    char* first = static_cast<char*>(buffer.data()) + (size > 0 ? tensor.margin_bytes() : 0);
    return {first, tensor.dtype(), tensor.shape(), tensor.strides(), DeviceKind::cuda};
  }

  void fetch(HostTensor& tensor, const TensorView& placed) override {
    cuda::synchronize(*device_);
    for (const cuda::DeviceBuffer& buffer : buffers_) {
      const char* first = static_cast<const char*>(buffer.data()) + tensor.margin_bytes();
      if (first != placed.data || buffer.size_bytes() == 0) continue;
      buffer.copy_to_host(tensor.bytes().data(), buffer.size_bytes());
    }
  }

  void clear() override { buffers_.clear(); }

 private:
  std::shared_ptr<const cuda::Device> device_;
  std::vector<cuda::DeviceBuffer> buffers_;
};

}  // namespace
}  // namespace epifuse::testing

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
