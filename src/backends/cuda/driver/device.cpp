// Finds the CUDA device and context that work goes to.
#include "backends/cuda/driver/device.h"

#include <fmt/format.h>

#include "epifuse/error.h"

namespace epifuse::cuda {
namespace {

using jit::CuDevice;
using jit::CuDeviceAttribute;

DeviceInfo describe(const jit::Driver& driver, CuDevice device) {
  const jit::DriverApi& api = driver.api();
  const auto attribute = [&](CuDeviceAttribute which) {
    int value = 0;
    driver.check(api.device_get_attribute(&value, which, device), "cuDeviceGetAttribute");
    return value;
  };
  const auto optional_attribute = [&](CuDeviceAttribute which) {
    int value = 0;
    return api.device_get_attribute(&value, which, device) == jit::kCudaSuccess ? value : 0;
  };
  DeviceInfo info;
  char name[256] = {};
  driver.check(api.device_get_name(name, sizeof(name) - 1, device), "cuDeviceGetName");
  info.name = name;
  info.place =
      fmt::format("{:04x}:{:02x}:{:02x}", optional_attribute(CuDeviceAttribute::pci_domain_id),
                  optional_attribute(CuDeviceAttribute::pci_bus_id),
                  optional_attribute(CuDeviceAttribute::pci_device_id));
  info.ordinal = device;
  info.major = attribute(CuDeviceAttribute::compute_capability_major);
  info.minor = attribute(CuDeviceAttribute::compute_capability_minor);
  info.num_sms = attribute(CuDeviceAttribute::multiprocessor_count);
  info.clocks_per_us = optional_attribute(CuDeviceAttribute::clock_rate_khz) / 1e3;
  // Twice a clock, of as many bits.
  info.memory_bytes_per_us = 2 * optional_attribute(CuDeviceAttribute::memory_clock_rate_khz) /
                             1e3 * optional_attribute(CuDeviceAttribute::memory_bus_width_bits) / 8;
  info.l2_bytes = static_cast<std::size_t>(attribute(CuDeviceAttribute::l2_cache_bytes));
  info.has_memory_pools = attribute(CuDeviceAttribute::memory_pools_supported) != 0;
  info.reads_any_host_memory = optional_attribute(CuDeviceAttribute::pageable_memory_access) != 0;
  driver.check(api.device_total_mem(&info.memory_bytes, device), "cuDeviceTotalMem");
  driver.check(api.driver_get_version(&info.driver_version), "cuDriverGetVersion");
  return info;
}

}  // namespace

std::string version_text(int driver_version) {
  return fmt::format("{}.{}", driver_version / 1000, driver_version % 1000 / 10);
}

std::vector<DeviceInfo> all_devices(std::string* why) {
  const auto driver = jit::Driver::open(why);
  if (driver == nullptr) return {};
  int count = 0;
  driver->check(driver->api().device_get_count(&count), "cuDeviceGetCount");
  std::vector<DeviceInfo> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CuDevice device = 0;
    driver->check(driver->api().device_get(&device, ordinal), "cuDeviceGet");
    devices.push_back(describe(*driver, device));
  }
  return devices;
}

std::optional<DeviceInfo> device_at_hand() {
  const auto driver = jit::Driver::open();
  if (driver == nullptr) return std::nullopt;
  const jit::DriverApi& api = driver->api();
  jit::CuContext context = nullptr;
  CuDevice device = 0;
  driver->check(api.ctx_get_current(&context), "cuCtxGetCurrent");
  if (context != nullptr) {
    driver->check(api.ctx_get_device(&device), "cuCtxGetDevice");
  } else {
    driver->check(api.device_get(&device, 0), "cuDeviceGet");
  }
  return describe(*driver, device);
}

targets::DeviceProfile profile_of(const DeviceInfo& device, const targets::TargetInfo& target) {
  return targets::make_profile(
      target, device.name, device.num_sms,
      {device.clocks_per_us, device.memory_bytes_per_us, static_cast<double>(device.l2_bytes)});
}

bool runs(const DeviceInfo& device, const targets::TargetInfo& target) {
  return targets::runs_on(target, device.major, device.minor);
}

std::shared_ptr<const Device> Device::current(std::string* why) {
  auto driver = jit::Driver::open(why);
  if (driver == nullptr) return nullptr;
  const std::shared_ptr<Device> device(new Device(std::move(driver)));
  const jit::DriverApi& api = device->api();
  device->check(api.ctx_get_current(&device->context_), "cuCtxGetCurrent");
  if (device->context_ != nullptr) {
    device->check(api.ctx_get_device(&device->device_), "cuCtxGetDevice");
  } else {
    device->check(api.device_get(&device->device_, 0), "cuDeviceGet");
    device->check(api.device_primary_ctx_retain(&device->context_, device->device_),
                  "cuDevicePrimaryCtxRetain");
    device->check(api.ctx_set_current(device->context_), "cuCtxSetCurrent");
  }
  device->info_ = describe(device->driver(), device->device_);
  return device;
}

std::shared_ptr<const Device> Device::require() {
  std::string why;
  auto device = current(&why);
  if (device == nullptr) throw UnavailableError("No GPU to run on. " + why);
  return device;
}

RelaxedCapture::RelaxedCapture(const jit::DriverApi& api)
    : api_(api), mode_(jit::CuStreamCaptureMode::relaxed) {
  api_.thread_exchange_stream_capture_mode(&mode_);
}

RelaxedCapture::~RelaxedCapture() { api_.thread_exchange_stream_capture_mode(&mode_); }

bool is_captured(const Device& device, jit::CuStream stream) {
  auto status = jit::CuStreamCaptureStatus::none;
  const jit::CuResult result = device.api().stream_is_capturing(stream, &status);
  return result != jit::kCudaSuccess || status != jit::CuStreamCaptureStatus::none;
}

}  // namespace epifuse::cuda
