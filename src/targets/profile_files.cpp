// The device profiles of this machine.
#include "targets/profile_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>

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

// A folder that is not used since others can write to it, and what is said of that.
struct Unused {
  fs::path folder;
  std::string text;
};

// The folder of profiles, or the cache folder that it is in.
std::optional<Unused> find_unused(const fs::path& folder) {
  const auto unused = [](const fs::path& where, std::string_view name) -> std::optional<Unused> {
    const auto why_not = why_not_private(where);
    if (!why_not) return std::nullopt;
    return Unused{where, fmt::format("the {} {} is not used: it {}", name,
                                     printable(where.native()), *why_not)};
  };
  if (folder == profile_folder()) {
    if (auto cache = unused(default_cache_folder(), "cache folder")) return cache;
  }
  return unused(folder, "folder of device profiles");
}

void make_usable(const fs::path& folder) {
  const auto refuse = [&] {
    if (const auto unused = find_unused(folder)) throw ArgumentError(unused->text);
  };
  refuse();
  make_private_folder(folder);
  refuse();  // somebody else may have made it
}

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

void check_profile_folder(const fs::path& folder) {
  std::error_code ignored;
  const bool is_new = !fs::exists(folder, ignored);
  make_usable(folder);
  const fs::path probe = folder / fmt::format(".probe.{}", ::getpid());
  write_file_atomically(probe, "");
  fs::remove(probe, ignored);
  if (is_new) ::rmdir(folder.c_str());  // stays where another process has put something in it
}

void store_profile(const fs::path& folder, const StoredProfile& profile) {
  make_usable(folder);
  write_file_atomically(profile_file(folder, profile.device), print(profile));
}

StoredDevices::StoredDevices(const fs::path& folder) {
  if (const auto unused = find_unused(folder)) {
    say_once(unused->folder.string() + " is not private", unused->text);
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
