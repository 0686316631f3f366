// What is known of devices: rows, what stands for a device without one, what `explain` says of it.
#include "targets/device_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/unit/targets/reference_device.h"

namespace epifuse::targets {
namespace {

const TargetInfo& gpu() { return usual_target(DeviceKind::cuda); }

TEST(DeviceProfiles, EachDeviceHasOneRowWithMeasurements) {
  std::set<std::string_view> names;
  for (const KnownDevice& device : all_known_devices()) {
    EXPECT_TRUE(names.insert(device.name).second) << device.name;
    EXPECT_EQ(find_device(device.name), &device);
    EXPECT_GT(device.measured->limits.num_sms, 0);
    EXPECT_GT(device.measured->rates.bytes_per_us, 0);
    EXPECT_NE(find_device(device.measured->device), nullptr) << "whose numbers they are";
  }
  EXPECT_EQ(find_device("NVIDIA Unheard Of"), nullptr);
}

TEST(DeviceProfiles, EveryGpuTargetStandsForADevice) {
  for (const TargetInfo& target : all_targets()) {
    const DeviceProfile profile = reference_profile(target);
    EXPECT_EQ(profile.known != nullptr, !target.reference_device.empty()) << target.name;
    EXPECT_EQ(profile.limits.num_sms > 0, target.kind == DeviceKind::cuda) << target.name;
    if (profile.known == nullptr) continue;
    EXPECT_EQ(profile.known->name, target.reference_device);
    EXPECT_EQ(profile.limits, profile.known->measured->limits);
  }
  EXPECT_NE(reference_gpu().known, nullptr);
}

TEST(DeviceProfiles, ATargetThatNothingWasMeasuredOfHasWhatTheDriverSays) {
  const DriverRates driver{1410, 1.5e6, 4e7};
  const DeviceProfile profile = make_profile(*find_target("sm_80"), "NVIDIA A100", 108, driver);
  EXPECT_EQ(profile.known, nullptr);
  EXPECT_EQ(profile.driver, driver);
  EXPECT_EQ(profile.limits, (DeviceLimits{108}));
}

TEST(DeviceProfiles, AKnownDeviceOfAllItsMultiprocessorsIsItsRow) {
  const DeviceProfile reference = reference_gpu();
  const DeviceProfile profile =
      make_profile(gpu(), reference.known->name, reference.limits.num_sms, {1980, 4.9e6, 6e7});
  EXPECT_EQ(profile.known, reference.known);
  EXPECT_EQ(profile.limits, reference.limits);
}

TEST(DeviceProfiles, AnUnknownDeviceHasItsOwnLimitsAndRates) {
  const DriverRates driver{1500, 2e6, 4e7};
  const int half = reference_gpu().limits.num_sms / 2;
  const DeviceProfile profile = make_profile(gpu(), "NVIDIA Unheard Of", half, driver);
  EXPECT_EQ(profile.known, nullptr);
  EXPECT_EQ(profile.driver, driver);
  EXPECT_EQ(profile.limits.num_sms, half);
  EXPECT_EQ(profile.limits.clusters_of_2, reference_gpu().limits.clusters_of_2 / 2);
}

TEST(DeviceProfiles, AFewMultiprocessorsHaveAClusterOfEachSize) {
  const DeviceProfile profile = make_profile(gpu(), "NVIDIA Unheard Of", 1, {});
  EXPECT_EQ(profile.limits, (DeviceLimits{1, 1, 1, 1, 1}));
}

TEST(DeviceProfiles, ASentenceSaysWhoseTimesTheyAre) {
  const int num_sms = reference_gpu().limits.num_sms;
  const auto text = [&](std::string_view name) {
    return describe(make_profile(gpu(), name, num_sms, {}), name);
  };
  EXPECT_EQ(text("NVIDIA H200"), "Expected times follow the measurements of NVIDIA H200.");
  EXPECT_EQ(text("NVIDIA H100 80GB HBM3"),
            "Expected times follow the measurements of NVIDIA H100 80GB HBM3.");
  const KnownDevice alike{"NVIDIA Like It", reference_gpu().known->measured};
  EXPECT_EQ(describe({reference_gpu().limits, {}, &alike}, "NVIDIA Like It"),
            "Expected times follow the measurements of NVIDIA H200, as NVIDIA Like It was not "
            "measured yet.");
  EXPECT_EQ(text("NVIDIA Unheard Of"),
            "There is no profile of NVIDIA Unheard Of: expected times follow constants that were "
            "measured on another device and are scaled by the rates that the driver gives, and the "
            "vendor's times are not known.");
}

}  // namespace
}  // namespace epifuse::targets
