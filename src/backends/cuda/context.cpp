// What an executable keeps in one CUDA context.
#include "backends/cuda/context.h"

#include <fmt/format.h>

#include <cstdint>

#include "epifuse/error.h"

namespace epifuse::cuda {
namespace {

jit::CuMemoryPool make_pool(const Device& device) {
  if (!device.info().has_memory_pools) return nullptr;
  jit::CuMemoryPoolProperties properties;
  properties.location_id = device.info().ordinal;
  jit::CuMemoryPool pool = nullptr;
  device.check(device.api().mem_pool_create(&pool, &properties), "cuMemPoolCreate");
  std::uint64_t keep_all = UINT64_MAX;
  device.check(device.api().mem_pool_set_attribute(
                   pool, jit::CuMemoryPoolAttribute::release_threshold_bytes, &keep_all),
               "cuMemPoolSetAttribute");
  return pool;
}

// Code for an architecture runs on exactly that compute capability.
void check_target(const DeviceInfo& device, const codegen::TargetInfo& target) {
  if (device.major == target.major && device.minor == target.minor) return;
  throw UnavailableError(fmt::format(
      "the program is compiled for {} (compute capability {}.{}), and {} has {}.{}", target.name,
      target.major, target.minor, device.name, device.major, device.minor));
}

}  // namespace

Context::Context(std::shared_ptr<const Device> device, const codegen::TargetInfo& target)
    : device_(std::move(device)), modules_(device_) {
  check_target(device_->info(), target);
  pool_ = make_pool(*device_);
}

Context::~Context() {
  if (pool_ != nullptr) device_->api().mem_pool_destroy(pool_);
}

VendorGemm& Context::vendor() {
  const std::scoped_lock lock(mutex_);
  if (vendor_ == nullptr) vendor_ = std::make_unique<VendorGemm>(device_);
  return *vendor_;
}

// Work on one stream is done in order, so that runs on it can share a buffer.
jit::CuDevicePtr Context::stream_buffer(std::size_t bytes, jit::CuStream stream) const {
  const std::scoped_lock lock(mutex_);
  std::vector<DeviceBuffer>& buffers = buffers_[stream];
  if (buffers.empty() || buffers.back().size_bytes() < bytes) {
    const RelaxedCapture relaxed(device_->api());
    buffers.emplace_back(device_, bytes);
  }
  return buffers.back().pointer();
}

Workspace::Workspace(const Context& context, std::size_t bytes, jit::CuStream stream)
    : stream_(stream) {
  if (bytes == 0) return;
  const Device& device = context.device();
  if (context.pool_ == nullptr) {
    pointer_ = context.stream_buffer(bytes, stream);
    return;
  }
  device.check(device.api().mem_alloc_from_pool_async(&pointer_, bytes, context.pool_, stream),
               "cuMemAllocFromPoolAsync");
  context_ = &context;
}

Workspace::~Workspace() {
  if (context_ != nullptr) context_->device().api().mem_free_async(pointer_, stream_);
}

}  // namespace epifuse::cuda
