// Device memory that frees itself, and copies to and from it.
#include "backends/cuda/driver/memory.h"

#include <fmt/format.h>

#include <utility>

#include "epifuse/error.h"

namespace epifuse::cuda {

DeviceBuffer::DeviceBuffer(std::shared_ptr<const Device> device, std::size_t bytes)
    : device_(std::move(device)), bytes_(bytes) {
  if (bytes_ == 0) return;
  const jit::CuResult result = device_->api().mem_alloc(&pointer_, bytes_);
  if (result == jit::kCudaErrorOutOfMemory) {
    throw DeviceError(
        fmt::format("{} has no {} bytes of memory left", device_->info().name, bytes));
  }
  device_->check(result, "cuMemAlloc");
}

DeviceBuffer::~DeviceBuffer() {
  if (pointer_ != 0) device_->api().mem_free(pointer_);
}

void DeviceBuffer::swap(DeviceBuffer& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(pointer_, other.pointer_);
  std::swap(bytes_, other.bytes_);
}

void DeviceBuffer::check_range(std::size_t offset, std::size_t bytes) const {
  if (offset <= bytes_ && bytes <= bytes_ - offset) return;
  throw ArgumentError(fmt::format(
      "expected a copy within the buffer's {} bytes, got {} bytes at {}", bytes_, bytes, offset));
}

void DeviceBuffer::copy_from_host(const void* source, std::size_t bytes, std::size_t offset) {
  check_range(offset, bytes);
  if (bytes == 0) return;
  device_->check(device_->api().memcpy_host_to_device(pointer_ + offset, source, bytes),
                 "cuMemcpyHtoD");
}

void DeviceBuffer::copy_to_host(void* target, std::size_t bytes, std::size_t offset) const {
  check_range(offset, bytes);
  if (bytes == 0) return;
  device_->check(device_->api().memcpy_device_to_host(target, pointer_ + offset, bytes),
                 "cuMemcpyDtoH");
}

void DeviceBuffer::fill(std::uint8_t value, Stream stream) {
  if (bytes_ == 0) return;
  device_->check(
      device_->api().memset_d8_async(pointer_, value, bytes_, static_cast<jit::CuStream>(stream)),
      "cuMemsetD8Async");
}

void synchronize(const Device& device) {
  device.check(device.api().ctx_synchronize(), "cuCtxSynchronize");
}

}  // namespace epifuse::cuda
