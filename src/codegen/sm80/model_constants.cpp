// The rows of the cp.async + mma.sync GEMM's constants, one a device.
#include "codegen/sm80/model_constants.h"

#include <algorithm>
#include <array>

#include "codegen/model_fields.h"

namespace epifuse::codegen::sm80 {
namespace {

// Of an H100: all but multiplies_per_clock, operation_clocks and l2_bytes are fitted to 33 products
// of the dense grid, each by 75 to 77 configs (2026-11-25, `epifuse bench --sweep --family sm80`;
// docs/adding-a-device.md). Of few points (H200, 2026-11-26): part_clocks (one config at one),
// element_copy_clocks (75 at one).
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
    .part_clocks = 0.2,
    .element_copy_clocks = 1.1,
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

// All of them, as those of `c`.
auto fields_of(ModelConstants& c) {
  const std::array fields{
      ModelField{"clocks_per_us", &c.clocks_per_us, true},
      ModelField{"multiplies_per_clock", &c.multiplies_per_clock},
      ModelField{"shared_bytes_per_clock", &c.shared_bytes_per_clock},
      ModelField{"l2_bytes_per_clock", &c.l2_bytes_per_clock},
      ModelField{"first_clocks", &c.first_clocks},
      ModelField{"latency_clocks", &c.latency_clocks},
      ModelField{"step_clocks", &c.step_clocks, true},
      ModelField{"alone_clocks", &c.alone_clocks, true},
      ModelField{"deep_slows", &c.deep_slows},
      ModelField{"tile_clocks", &c.tile_clocks, true},
      ModelField{"element_clocks", &c.element_clocks, true},
      ModelField{"operation_clocks", &c.operation_clocks},
      ModelField{"launch_us", &c.launch_us, true},
      ModelField{"bytes_per_us", &c.bytes_per_us, true},
      ModelField{"l2_bytes", &c.l2_bytes},
      ModelField{"join_clocks", &c.join_clocks},
      ModelField{"clear_us", &c.clear_us},
      ModelField{"persistent_slows", &c.persistent_slows},
      ModelField{"part_clocks", &c.part_clocks},
      ModelField{"element_copy_clocks", &c.element_copy_clocks},
  };
  static_assert(fields.size() * sizeof(double) == sizeof(ModelConstants));
  return fields;
}

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
  const auto measured = measured_constants(device);
  if (!measured.empty()) replace(fields_of(constants), kFamily, measured);
  return constants;
}

std::vector<NamedConstant> named_constants(const targets::DeviceProfile& device) {
  ModelConstants constants = constants_of(device);
  return named(fields_of(constants));
}

}  // namespace epifuse::codegen::sm80
