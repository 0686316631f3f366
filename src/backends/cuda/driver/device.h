// The CUDA device and context that work goes to, and what is known of it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jit/driver_api.h"
#include "targets/device_profile.h"

namespace epifuse::cuda {

struct DeviceInfo {
  std::string name;   // "NVIDIA H200"
  std::string place;  // in the machine, the same in all processes: "0000:1b:00"
  int ordinal = 0;
  int major = 0, minor = 0;  // compute capability
  int num_sms = 0;
  double clocks_per_us = 0, memory_bytes_per_us = 0;  // at most; 0 where the driver does not say
  std::size_t memory_bytes = 0, l2_bytes = 0;
  int driver_version = 0;  // 12080 is CUDA 12.8
  bool has_memory_pools = false;
  bool reads_any_host_memory = false;  // else what is pinned or managed
};
// "13.0" of 13000.
std::string version_text(int driver_version);

// Every device the driver shows. Empty when there is none; `why` then says what is missing.
std::vector<DeviceInfo> all_devices(std::string* why = nullptr);

// The device of the context that is current in this thread, else device 0. Makes no context. Empty
// where there is no driver or device; throws DeviceError when the driver fails.
std::optional<DeviceInfo> device_at_hand();

// What choices on the device go by, before any kernel is loaded.
targets::DeviceProfile profile_of(const DeviceInfo& device, const targets::TargetInfo& target);
// Whether code of the target runs on the device.
bool runs(const DeviceInfo& device, const targets::TargetInfo& target);

// A context and its device.
class Device {
 public:
  // The context that is current in this thread (PyTorch's, the runtime's), else the primary one of
  // device 0, which becomes current and stays open (other libraries may take it over). Null without
  // a driver or device; `why` then says what is missing and where it looked. Throws DeviceError
  // when the driver fails.
  static std::shared_ptr<const Device> current(std::string* why = nullptr);
  // The same; throws UnavailableError when there is none.
  static std::shared_ptr<const Device> require();

  const jit::Driver& driver() const { return *driver_; }
  const jit::DriverApi& api() const { return driver_->api(); }
  jit::CuContext context() const { return context_; }
  const DeviceInfo& info() const { return info_; }
  void check(jit::CuResult result, const char* call) const { driver_->check(result, call); }

 private:
  explicit Device(std::shared_ptr<const jit::Driver> driver) : driver_(std::move(driver)) {}
  std::shared_ptr<const jit::Driver> driver_;
  jit::CuContext context_ = nullptr;
  jit::CuDevice device_ = 0;
  DeviceInfo info_;
};

// While alive, calls that a global stream capture forbids (loading modules, allocating) are allowed
// in this thread and leave the capture alone.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const jit::DriverApi& api);
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const jit::DriverApi& api_;
  jit::CuStreamCaptureMode mode_;
};

// Whether work on it becomes a part of a CUDA graph. A stream of which nothing can be said (the
// legacy one, while another is captured) counts as one.
bool is_captured(const Device& device, jit::CuStream stream);

}  // namespace epifuse::cuda
