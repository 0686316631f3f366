// Device memory that frees itself, and copies to and from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/cuda/driver/device.h"
#include "epifuse/program.h"

namespace epifuse::cuda {

// A block of device memory. Movable; freed with the last byte's work done (cuMemFree waits).
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // Uninitialised; 0 bytes allocate nothing. Throws DeviceError when memory is short.
  DeviceBuffer(std::shared_ptr<const Device> device, std::size_t bytes);
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBuffer();

  void* data() const { return reinterpret_cast<void*>(pointer_); }
  jit::CuDevicePtr pointer() const { return pointer_; }
  std::size_t size_bytes() const { return bytes_; }

  // These wait for the copy (not for other work queued on the device). Throw ArgumentError when
  // `bytes` reaches past the end.
  void copy_from_host(const void* source, std::size_t bytes, std::size_t offset = 0);
  void copy_to_host(void* target, std::size_t bytes, std::size_t offset = 0) const;
  // Queued on `stream`.
  void fill(std::uint8_t value, Stream stream = nullptr);

 private:
  void swap(DeviceBuffer& other) noexcept;
  void check_range(std::size_t offset, std::size_t bytes) const;
  std::shared_ptr<const Device> device_;
  jit::CuDevicePtr pointer_ = 0;
  std::size_t bytes_ = 0;
};

// Waits for all work of the context. Throws DeviceError when any of it failed.
void synchronize(const Device& device);

}  // namespace epifuse::cuda
