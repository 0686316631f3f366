// The rows of the cp.async + mma.sync GEMM's constants, one a device.
#include "codegen/sm80/model_constants.h"

#include <algorithm>

#include "codegen/model_fields.h"

namespace epifuse::codegen::sm80 {
namespace {

// Of an H100: all but multiplies_per_clock, operation_clocks and l2_bytes are fitted to 33 products
// of the dense grid, each by 75 to 77 configs (2026-11-25, `epifuse bench --sweep --family sm80`;
// docs/adding-a-device.md).
constexpr ModelConstants kH100{
    .clocks_per_us = 1850,
    .multiplies_per_clock = 1024,
    .shared_bytes_per_clock = 100,
    .l2_bytes_per_clock = 15,
    .first_clocks = 500,
    .latency_clocks = 1600,
    .step_clocks = 170,
    .alone_clocks = 33,
    .deep_slows = 1.11,
    .tile_clocks = 2300,
    .element_clocks = 0.104,
    .operation_clocks = 0.012,
    .launch_us = 6,
    .bytes_per_us = 2.6e6,
    .l2_bytes = 50e6,
    .join_clocks = 2000,
    .clear_us = 3,
    .persistent_slows = 1.015,
};

struct Row {
  std::string_view device;
  const ModelConstants* constants;
};
constexpr Row kRows[] = {{"NVIDIA H100 80GB HBM3", &kH100}};

// Clocks belong to the kernels, so the only fit stands for them. Rates are parts of what the driver
// says, as the fit's are of 1980 MHz and 3.35 TB/s; without a driver, the H100's for each SM.
ModelConstants generic(const targets::DeviceProfile& device) {
  constexpr double kOfClock = 1850.0 / 1980, kOfMemory = 0.78, kOfL2 = 1, kSms = 132;
  const double sms = device.limits.num_sms / kSms;
  const targets::DriverRates& driver = device.driver;
  ModelConstants out = kH100;
  out.bytes_per_us *= sms;
  out.l2_bytes *= sms;
  if (driver.clocks_per_us > 0) out.clocks_per_us = kOfClock * driver.clocks_per_us;
  if (driver.bytes_per_us > 0) out.bytes_per_us = kOfMemory * driver.bytes_per_us;
  if (driver.l2_bytes > 0) out.l2_bytes = kOfL2 * driver.l2_bytes;
  if (device.macs_per_clock > 0) out.multiplies_per_clock = device.macs_per_clock;
  return out;
}

constexpr std::string_view kFamily = "sm80";  // of the row in families.def

using Field = ModelField<ModelConstants>;
constexpr Field kFields[] = {
    {"clocks_per_us", &ModelConstants::clocks_per_us, true},
    {"multiplies_per_clock", &ModelConstants::multiplies_per_clock},
    {"shared_bytes_per_clock", &ModelConstants::shared_bytes_per_clock},
    {"l2_bytes_per_clock", &ModelConstants::l2_bytes_per_clock},
    {"first_clocks", &ModelConstants::first_clocks},
    {"latency_clocks", &ModelConstants::latency_clocks},
    {"step_clocks", &ModelConstants::step_clocks, true},
    {"alone_clocks", &ModelConstants::alone_clocks, true},
    {"deep_slows", &ModelConstants::deep_slows},
    {"tile_clocks", &ModelConstants::tile_clocks, true},
    {"element_clocks", &ModelConstants::element_clocks, true},
    {"operation_clocks", &ModelConstants::operation_clocks},
    {"launch_us", &ModelConstants::launch_us, true},
    {"bytes_per_us", &ModelConstants::bytes_per_us, true},
    {"l2_bytes", &ModelConstants::l2_bytes},
    {"join_clocks", &ModelConstants::join_clocks},
    {"clear_us", &ModelConstants::clear_us},
    {"persistent_slows", &ModelConstants::persistent_slows},
};
static_assert(std::size(kFields) * sizeof(double) == sizeof(ModelConstants));

ModelConstants usual_constants(const targets::DeviceProfile& device) {
  if (device.known != nullptr) {
    const auto* const row = std::ranges::find(kRows, device.known->measured->device, &Row::device);
    if (row != std::end(kRows)) return *row->constants;
  }
  return generic(device);
}

}  // namespace

ModelConstants constants_of(const targets::DeviceProfile& device) {
  ModelConstants constants = usual_constants(device);
  if (device.known != nullptr) {
    replace<ModelConstants>(constants, kFields, kFamily, device.known->measured->constants);
  }
  return constants;
}

std::vector<NamedConstant> named_constants(const targets::DeviceProfile& device) {
  return named<ModelConstants>(constants_of(device), kFields);
}

}  // namespace epifuse::codegen::sm80
