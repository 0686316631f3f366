// A device's profile as versioned text, which people and programs may read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "targets/device_profile.h"

namespace epifuse::targets {

// Measurements that own their memory.
struct StoredProfile {
  std::string device;  // as the driver reports it
  std::string origin;  // one line: when it was measured, with what
  DeviceLimits limits;
  DeviceRates rates{};
  std::vector<MeasuredProduct> vendor_us, bare_ratios;
  std::vector<MisalignedProducts> misaligned;
  std::optional<RowsFirst> rows_first;
  struct Constant {
    std::string family, name;
    double value = 0;
  };
  std::vector<Constant> constants;
};

// Of a row of devices.def, or of another profile.
StoredProfile copy_of(const KnownDevice& device);

// Numbers are printed so that parse_profile gives back the same ones.
std::string print(const StoredProfile& profile);

// Throws ArgumentError with the number of the line: what is expected there, what came. Lines that
// begin with # are comments.
StoredProfile parse_profile(std::string_view text);

}  // namespace epifuse::targets
