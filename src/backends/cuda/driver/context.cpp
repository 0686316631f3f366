// What an executable keeps in one CUDA context.
#include "backends/cuda/driver/context.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

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

void check_target(const DeviceInfo& device, const targets::TargetInfo& target) {
  if (runs(device, target)) return;
  throw UnavailableError(fmt::format(
      "the program is compiled for {} (compute capability {}.{}), and {} has {}.{}", target.name,
      target.major, target.minor, device.name, device.major, device.minor));
}

}  // namespace

Context::Context(std::shared_ptr<const Device> device, const targets::TargetInfo& target,
                 tune::TuneStore store, std::string toolchain, std::string family)
    : device_(std::move(device)),
      smem_per_block_bytes_(target.smem_per_block_bytes),
      tuned_({device_->info().name, device_->info().driver_version, std::move(toolchain),
              std::move(family)},
             std::move(store)),
      modules_(device_),
      blocks_(device_, device_->info().has_memory_pools ? StreamBlocks::kMostBytes : SIZE_MAX) {
  check_target(device_->info(), target);
  profile_ = profile_of(device_->info(), target);
  pool_ = make_pool(*device_);
}

void Context::count_clusters(const std::shared_ptr<const jit::Binary>& binary,
                             const std::string& entry) {
  targets::DeviceLimits& limits = profile_.limits;
  const auto smem_bytes = static_cast<unsigned>(smem_per_block_bytes_);
  const jit::CuFunction function = modules_.get(binary, entry, smem_bytes);
  int threads = 0;
  if (device_->api().func_get_attribute(&threads, jit::CuFunctionAttribute::max_threads_per_block,
                                        function) != jit::kCudaSuccess) {
    return;
  }
  const auto count = [&](unsigned size, int& clusters) {
    jit::CuLaunchAttribute cluster{};
    cluster.id = jit::CuLaunchAttributeId::cluster_dimension;
    cluster.value.cluster = {size, 1, 1};
    const auto grid = size * static_cast<unsigned>(limits.num_sms);
    const jit::CuLaunchConfig config{
        grid, 1, 1, static_cast<unsigned>(threads), 1, 1, smem_bytes, nullptr, &cluster, 1};
    int at_once = 0;
    const jit::CuResult result =
        device_->api().occupancy_max_active_clusters(&at_once, function, &config);
    if (result == jit::kCudaSuccess && at_once > 0) clusters = at_once;
  };
  count(2, limits.clusters_of_2);
  count(3, limits.clusters_of_3);
  count(4, limits.clusters_of_4);
  count(8, limits.clusters_of_8);
}

Context::~Context() {
  if (pool_ != nullptr) device_->api().mem_pool_destroy(pool_);
}

VendorGemm& Context::vendor() {
  const std::scoped_lock lock(mutex_);
  if (vendor_ == nullptr) vendor_ = std::make_unique<VendorGemm>(device_);
  return *vendor_;
}

jit::CuDevicePtr Context::captured_buffer(std::size_t bytes) const {
  const std::scoped_lock lock(mutex_);
  const RelaxedCapture relaxed(device_->api());
  return captured_.emplace_back(device_, bytes).pointer();
}

Workspace::Workspace(const Context& context, std::size_t bytes, jit::CuStream stream)
    : context_(context), stream_(stream) {
  if (bytes == 0) return;
  const Device& device = context.device();
  const bool is_captured = cuda::is_captured(device, stream);
  if (!is_captured) {
    device.check(device.api().stream_get_id(stream, &stream_id_), "cuStreamGetId");
    block_ = context.blocks_.take(bytes, stream_id_);
    pointer_ = block_.pointer();
  }
  if (pointer_ != 0) return;
  if (context.pool_ == nullptr) {
    pointer_ = context.captured_buffer(bytes);
    return;
  }
  device.check(device.api().mem_alloc_from_pool_async(&pointer_, bytes, context.pool_, stream),
               "cuMemAllocFromPoolAsync");
  is_of_pool_ = true;
}

Workspace::~Workspace() {
  if (is_of_pool_) context_.device().api().mem_free_async(pointer_, stream_);
  if (block_.size_bytes() > 0) context_.blocks_.give_back(std::move(block_), stream_id_);
}

}  // namespace epifuse::cuda
