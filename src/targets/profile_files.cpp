// The device profiles of this machine.
#include "targets/profile_files.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdint>
#include <string>

#include "base/cache_folder.h"
#include "base/file.h"
#include "base/notice.h"
#include "base/printable.h"
#include "base/private_files.h"
#include "epifuse/error.h"

namespace epifuse::targets {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".profile";
constexpr std::uintmax_t kMostBytes = std::uintmax_t{4} << 20;

}  // namespace

// Its row views what it holds.
struct StoredDevices::Device {
  explicit Device(StoredProfile read) : profile(std::move(read)) {
    for (const StoredProfile::Constant& each : profile.constants) {
      constants.push_back({each.family, each.name, each.value});
    }
    measured.device = profile.device;
    measured.limits = profile.limits;
    measured.rates = profile.rates;
    measured.vendor_us = profile.vendor_us;
    measured.bare_ratios = profile.bare_ratios;
    measured.misaligned = profile.misaligned;
    measured.rows_first = profile.rows_first;
    measured.constants = constants;
    measured.origin = profile.origin;
    known = {profile.device, &measured};
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const StoredProfile profile;
  std::vector<ModelConstant> constants;
  Measurements measured{};
  KnownDevice known{};
};

fs::path profile_folder() { return default_cache_folder() / "profiles"; }

fs::path profile_file(const fs::path& folder, std::string_view device) {
  std::string name;
  for (const char c : device) {
    const auto byte = static_cast<unsigned char>(c);
    name += std::isalnum(byte) != 0 ? static_cast<char>(std::tolower(byte)) : '_';
  }
  return folder / (name + std::string(kSuffix));
}

void store_profile(const fs::path& folder, const StoredProfile& profile) {
  make_private_folder(folder);
  if (const auto why_not = why_not_private(folder)) {
    throw ArgumentError(fmt::format("the folder of device profiles {} is not used: it {}",
                                    printable(folder.native()), *why_not));
  }
  write_file_atomically(profile_file(folder, profile.device), print(profile));
}

StoredDevices::StoredDevices(const fs::path& folder) {
  if (const auto why_not = why_not_private(folder)) {
    say_once(folder.string() + " is not private",
             fmt::format("the folder of device profiles {} is not used: it {}",
                         printable(folder.native()), *why_not));
    return;
  }
  for (const fs::path& file : files_with(folder, kSuffix)) {
    const auto text = read_private_file(file, kMostBytes);
    if (!text) continue;
    try {
      devices_.push_back(std::make_shared<const Device>(parse_profile(*text)));
    } catch (const ArgumentError& error) {
      say_once(file.string(), fmt::format("the device profile {} is not used: {}",
                                          printable(file.native()), error.what()));
    }
  }
}

const KnownDevice* StoredDevices::find(std::string_view name) const {
  for (const auto& device : devices_) {
    if (device->known.name == name) return &device->known;
  }
  return nullptr;
}

}  // namespace epifuse::targets
