// What is known of the device that kernels run on: its limits, its rates, what was measured on it.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "targets/targets.h"

namespace epifuse::targets {

// Rates that programs reach, and the time that a kernel costs beside its work.
struct DeviceRates {
  double flops_per_us, bytes_per_us;  // of large products, of elementwise kernels
  double start_us, launch_us;         // of a kernel alone, of one behind another
  double l2_bytes_per_us = 0;         // of elementwise kernels whose data is in L2; 0: not known
};

// A product of 16-bit matrices, mostly K-major, and what was measured of it.
struct MeasuredProduct {
  std::int64_t m, n, k;
  double value;
};

// How an operand of a kernel lies in memory: on 16-byte boundaries, or off them.
enum class Rows { aligned, k_major, mn_major };

// How many times as long products take whose operands lie so, as aligned ones: our kernel (noted
// only: its model counts what threads move), and the vendor's where rows start at multiples of 4
// bytes (`even`) or not (`odd`). `another_8` and so on: kernels of another family than the usual
// one, which copy 8, 4 or fewer bytes at once, as rows start at; 0 where they were not measured.
struct MisalignedProducts {
  Rows a, b;
  double fused, vendor_even, vendor_odd;
  double another_8 = 0, another_4 = 0, another_2 = 0;
};

// Microseconds of a pass that moves so many bytes, read and written, behind another kernel.
double pass_us(double bytes, const DeviceRates& rates);
// Microseconds of a product that takes `us` on aligned operands; its start takes no longer.
double slowed_down(double us, double slowdown, const DeviceRates& rates);

// Where rows of A that a product looks up are better copied in order before it.
struct RowsFirst {
  double gather_slows;       // the product, by this part of its time, when it copies them itself
  std::int64_t fewest_rows;  // of a group; with fewer, weights are what takes the time
};

// A constant of a kernel family's model of time.
struct ModelConstant {
  std::string_view family, name;
  double value;
};

// What was measured on one device. Lists may be empty: nothing follows from what is not there.
struct Measurements {
  std::string_view device;  // that they were taken on; families key their constants by it
  DeviceLimits limits;
  DeviceRates rates;
  std::span<const MeasuredProduct> vendor_us;    // microseconds of the vendor's product
  std::span<const MeasuredProduct> bare_ratios;  // our time over the vendor's, nothing being fused
  std::span<const MisalignedProducts> misaligned;
  std::optional<RowsFirst> rows_first;
  std::span<const ModelConstant> constants;  // in the place of the families' own
  std::string_view origin = "";              // of a profile of this machine: when, with what
};

// The row of operands that lie so; null where it was not measured.
const MisalignedProducts* find_misaligned(const Measurements& measured, Rows a, Rows b);

// A row of devices.def, or a profile that `epifuse calibrate` made on this machine.
struct KnownDevice {
  std::string_view name;  // as the driver reports it
  const Measurements* measured;
};
std::span<const KnownDevice> all_known_devices();  // the rows
// The profile of that name that this machine has (profile_files.h), else the row; null without
// both.
const KnownDevice* find_device(std::string_view name);

// What the driver says of a device; 0 where it does not.
struct DriverRates {
  double clocks_per_us = 0;  // at most
  double bytes_per_us = 0;   // the pins of its memory
  double l2_bytes = 0;
  auto operator<=>(const DriverRates&) const = default;
};

// What choices go by. Limits and rates are the device's own. `known` is null for a device without a
// row: then no measurement of another one counts.
struct DeviceProfile {
  DeviceLimits limits;
  DriverRates driver;
  const KnownDevice* known = nullptr;
  // Of the target that the device runs; 0: not known.
  double macs_per_clock = 0, fp8_macs_per_clock = 0;
  auto operator<=>(const DeviceProfile&) const = default;
};

// Of a device of that name. Until the driver has counted clusters, they are those of its row, or of
// the target's reference device, in proportion to the multiprocessors; without both there are none.
DeviceProfile make_profile(const TargetInfo& target, std::string_view name, int num_sms,
                           const DriverRates& driver);

// The device that a target stands for where there is none: ahead of time, or without a GPU. Of a
// target without a reference device, one of its usual number of multiprocessors.
DeviceProfile reference_profile(const TargetInfo& target);

// Whose constants the times are that the profile makes one expect; one sentence. `name` is the
// device's.
std::string describe(const DeviceProfile& profile, std::string_view name);

}  // namespace epifuse::targets
