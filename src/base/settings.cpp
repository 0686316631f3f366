// The one place that reads environment variables.
#include "base/settings.h"

#include <cstdlib>

namespace epifuse {
namespace {

constexpr SettingInfo kSettings[] = {
#define EPIFUSE_SETTING(field, variable, meaning) {variable, meaning},
#include "base/settings.def"
#undef EPIFUSE_SETTING
};

std::string read_variable(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? std::string() : std::string(text);
}

}  // namespace

std::span<const SettingInfo> all_settings() { return kSettings; }

Settings Settings::read() {
  Settings settings;
#define EPIFUSE_SETTING(field, variable, meaning) settings.field = read_variable(variable);
#include "base/settings.def"
#undef EPIFUSE_SETTING
  return settings;
}

}  // namespace epifuse
