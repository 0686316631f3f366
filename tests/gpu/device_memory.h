// Tensors and other bytes of a test on the GPU.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "backends/cuda/driver/memory.h"
#include "tests/common/memory.h"

namespace epifuse::testing {

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

  const void* place_bytes(const void* bytes, std::size_t size) override {
    cuda::DeviceBuffer& buffer = buffers_.emplace_back(device_, size);
    if (size > 0) buffer.copy_from_host(bytes, size);
    return buffer.data();
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

}  // namespace epifuse::testing
