// Opens the CUDA driver and binds its entry points.
#include "jit/driver.h"

#include <fmt/format.h>

#include "base/settings.h"
#include "epifuse/error.h"
#include "jit/driver_api.h"
#include "jit/dynamic_library.h"

namespace epifuse::jit {
namespace {

// Names of the entry points that `library` lacks.
std::vector<std::string> bind(const DynamicLibrary& library, DriverApi& api) {
  std::vector<std::string> missing;
#define EPIFUSE_DRIVER_CALL(member, symbol, parameters) \
  if (!library.bind(#symbol, api.member)) missing.emplace_back(#symbol);
#include "jit/driver.def"
#undef EPIFUSE_DRIVER_CALL
  return missing;
}

DynamicLibrary open_first(const std::vector<std::string>& names, std::string& tried) {
  for (const std::string& name : names) {
    DynamicLibrary library = DynamicLibrary::open(name);
    if (library) return library;
    tried += fmt::format("\n  {}: {}", name, library.error());
  }
  return {};
}

// "CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)"
std::string describe(const DriverApi& api, CuResult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (api.get_error_name(result, &name) != kCudaSuccess || name == nullptr) {
    return fmt::format("error {}", result);
  }
  const bool has_text = api.get_error_string(result, &text) == kCudaSuccess && text != nullptr;
  return fmt::format("{} ({})", name, has_text ? text : "no description");
}

}  // namespace

Driver::Driver() : api_(std::make_unique<DriverApi>()) {}
Driver::~Driver() = default;

std::shared_ptr<const Driver> Driver::open(std::string* why) {
  const auto refuse = [why](std::string reason) {
    if (why != nullptr) *why = std::move(reason);
    return nullptr;
  };
  const std::string setting = Settings::read().cuda_driver;
  // The second path is where WSL keeps it, outside the loader's search.
  const std::vector<std::string> names =
      setting.empty() ? std::vector<std::string>{"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"}
                      : std::vector<std::string>{setting};
  std::string tried;
  const DynamicLibrary library = open_first(names, tried);
  if (!library) return refuse(fmt::format("There is no CUDA driver. Looked for:{}", tried));

  const std::shared_ptr<Driver> driver(new Driver());
  const std::vector<std::string> missing = bind(library, *driver->api_);
  if (!missing.empty()) {
    return refuse(fmt::format("The CUDA driver is too old (CUDA 12 is needed): it lacks {}.",
                              fmt::join(missing, ", ")));
  }
  const DriverApi& api = driver->api();
  if (const CuResult result = api.init(0); result != kCudaSuccess) {
    return refuse(fmt::format("The CUDA driver does not start: {}.", describe(api, result)));
  }
  int num_devices = 0;
  if (api.device_get_count(&num_devices) != kCudaSuccess || num_devices == 0) {
    return refuse("The CUDA driver sees no device.");
  }
  return driver;
}

void Driver::check(CuResult result, const char* call) const {
  if (result == kCudaSuccess) return;
  throw DeviceError(fmt::format("{} failed: {}", call, describe(*api_, result)));
}

}  // namespace epifuse::jit
