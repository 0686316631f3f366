// The CUDA driver, opened at run time: the entry points epifuse calls, typed here so that no CUDA
// header is needed to build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace epifuse::jit {

using CuResult = int;
using CuDevice = int;
using CuContext = struct CuContextTag*;
using CuModule = struct CuModuleTag*;
using CuFunction = struct CuFunctionTag*;
using CuStream = struct CuStreamTag*;
using CuEvent = struct CuEventTag*;
using CuDevicePtr = unsigned long long;

// The table of entry points: jit/driver_api.h, from the rows of driver.def.
struct DriverApi;

class Driver {
 public:
  // The process's driver, initialised (cuInit). Null when there is none or no device;
  // `why` then says what is missing and where it looked.
  static std::shared_ptr<const Driver> open(std::string* why = nullptr);
  const DriverApi& api() const { return *api_; }
  // Throws DeviceError naming the call and the driver's own message when `result` is not success.
  void check(CuResult result, const char* call) const;
  ~Driver();

 private:
  Driver();
  std::unique_ptr<DriverApi> api_;
};

}  // namespace epifuse::jit
