// The device profiles of this machine, which `epifuse calibrate` makes.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "targets/profile_text.h"

namespace epifuse::targets {

// `profiles` in the cache folder.
std::filesystem::path profile_folder();

// The file of a device there, whether it exists or not: "nvidia_h200.profile".
std::filesystem::path profile_file(const std::filesystem::path& folder, std::string_view device);

// Throws ArgumentError where store_profile would: before something is measured for it.
void check_profile_folder(const std::filesystem::path& folder);

// Whole or not at all. Throws ArgumentError where it cannot be written, or would not be read.
void store_profile(const std::filesystem::path& folder, const StoredProfile& profile);

// Profiles of a folder as rows like those of devices.def.
class StoredDevices {
 public:
  // A folder that others can write to has none, nor has one in such a cache folder; a file that is
  // no profile is passed over. Both are said once.
  explicit StoredDevices(const std::filesystem::path& folder);
  const KnownDevice* find(std::string_view name) const;  // null when there is none

 private:
  struct Device;
  std::vector<std::shared_ptr<const Device>> devices_;
};

}  // namespace epifuse::targets
