// The table of known devices, and what follows from a row.
#include "targets/device_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "targets/profile_files.h"

namespace epifuse::targets {

// The file of each device's measurements has them.
namespace devices {
#define EPIFUSE_DEVICE(name, measurements) extern const Measurements measurements;
#include "targets/devices.def"
#undef EPIFUSE_DEVICE
}  // namespace devices

namespace {

constexpr KnownDevice kDevices[] = {
#define EPIFUSE_DEVICE(name, measurements) {name, &devices::measurements},
#include "targets/devices.def"
#undef EPIFUSE_DEVICE
};

const KnownDevice* reference_of(const TargetInfo& target) {
  return find_device(target.reference_device);
}

// Without a device that was measured: clusters are counted where the driver is asked.
DeviceLimits unmeasured(int num_sms) { return {num_sms}; }

// A cluster never spans two groups of multiprocessors, so a device that has fewer of them has fewer
// clusters; at least one, as numbers of tiles are divided by them.
DeviceLimits scaled(const DeviceLimits& of, int num_sms) {
  const auto in_proportion = [&](int clusters) {
    const std::int64_t proportion = std::int64_t{clusters} * num_sms / of.num_sms;
    return clusters == 0 ? 0 : static_cast<int>(std::max<std::int64_t>(proportion, 1));
  };
  return {num_sms, in_proportion(of.clusters_of_2), in_proportion(of.clusters_of_3),
          in_proportion(of.clusters_of_4), in_proportion(of.clusters_of_8)};
}

}  // namespace

std::span<const KnownDevice> all_known_devices() { return kDevices; }

const KnownDevice* find_device(std::string_view name) {
  // Read once, so that all choices of a process go by the same numbers.
  static const StoredDevices of_this_machine(profile_folder());
  if (const KnownDevice* own = of_this_machine.find(name)) return own;
  const auto* const found = std::ranges::find(kDevices, name, &KnownDevice::name);
  return found == std::end(kDevices) ? nullptr : found;
}

double pass_us(double bytes, const DeviceRates& rates) {
  return bytes / rates.bytes_per_us + rates.launch_us;
}

double slowed_down(double us, double slowdown, const DeviceRates& rates) {
  return us + std::max(us - rates.start_us, 0.0) * (slowdown - 1);
}

const MisalignedProducts* find_misaligned(const Measurements& measured, Rows a, Rows b) {
  const auto row = std::ranges::find_if(measured.misaligned, [&](const MisalignedProducts& each) {
    return each.a == a && each.b == b;
  });
  return row == measured.misaligned.end() ? nullptr : &*row;
}

DeviceProfile make_profile(const TargetInfo& target, std::string_view name, int num_sms,
                           const DriverRates& driver) {
  const KnownDevice* known = find_device(name);
  const double macs = target.macs_per_clock, fp8 = target.fp8_macs_per_clock;
  const KnownDevice* like = known != nullptr ? known : reference_of(target);
  if (like == nullptr) return {unmeasured(num_sms), driver, nullptr, macs, fp8};
  return {scaled(like->measured->limits, num_sms), driver, known, macs, fp8};
}

DeviceProfile reference_profile(const TargetInfo& target) {
  const KnownDevice* known = reference_of(target);
  const double macs = target.macs_per_clock, fp8 = target.fp8_macs_per_clock;
  if (known == nullptr) return {unmeasured(target.num_sms), {}, nullptr, macs, fp8};
  return {known->measured->limits, {}, known, macs, fp8};
}

std::string describe(const DeviceProfile& profile, std::string_view name) {
  if (profile.known == nullptr) {
    return fmt::format(
        "There is no profile of {}: expected times follow constants that were measured on another "
        "device and are scaled by the rates that the driver gives, and the vendor's times are not "
        "known.",
        name);
  }
  if (!profile.known->measured->origin.empty()) {
    return fmt::format("Expected times follow this machine's profile of {}: {}.",
                       profile.known->name, profile.known->measured->origin);
  }
  if (profile.known->measured->device != profile.known->name) {
    return fmt::format("Expected times follow the measurements of {}, as {} was not measured yet.",
                       profile.known->measured->device, profile.known->name);
  }
  return fmt::format("Expected times follow the measurements of {}.", profile.known->name);
}

}  // namespace epifuse::targets
