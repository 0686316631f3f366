// What choices go by on a device that the driver describes, and where there is none.
#include <gtest/gtest.h>

#include "backends/cuda/driver/device.h"
#include "tests/unit/jit/environment.h"

namespace epifuse::cuda {
namespace {

const targets::TargetInfo& hopper() { return *targets::find_target("sm_90a"); }

DeviceInfo unheard_of() {
  DeviceInfo info;
  info.name = "NVIDIA Unheard Of";
  info.major = 9;
  info.num_sms = 66;
  info.clocks_per_us = 1500;
  info.memory_bytes_per_us = 2e6;
  info.l2_bytes = 40'000'000;
  return info;
}

TEST(CudaDevice, LimitsAndRatesComeFromTheDriver) {
  const targets::DeviceProfile profile = profile_of(unheard_of(), hopper());
  EXPECT_EQ(profile.known, nullptr);
  EXPECT_EQ(profile.limits.num_sms, 66);
  EXPECT_EQ(profile.driver, (targets::DriverRates{1500, 2e6, 4e7}));
}

TEST(CudaDevice, ItsNameSaysWhatWasMeasured) {
  DeviceInfo info = unheard_of();
  info.name = hopper().reference_device;
  EXPECT_EQ(profile_of(info, hopper()).known, targets::find_device(hopper().reference_device));
}

TEST(CudaDevice, RunsCodeOfItsComputeCapabilityOnly) {
  DeviceInfo info = unheard_of();
  EXPECT_TRUE(runs(info, hopper()));
  info.minor = 1;
  EXPECT_FALSE(runs(info, hopper()));
}

TEST(CudaDevice, NoneIsAtHandWithoutADriver) {
  const jit::ScopedVariable hidden("EPIFUSE_CUDA_DRIVER", "/nowhere/libcuda.so");
  EXPECT_FALSE(device_at_hand());
}

}  // namespace
}  // namespace epifuse::cuda
