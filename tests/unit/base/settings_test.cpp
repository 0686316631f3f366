// Settings come from the environment, afresh at each read.
#include "base/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

namespace epifuse {
namespace {

TEST(Settings, AreReadAfresh) {
  unsetenv("EPIFUSE_NVRTC");
  EXPECT_EQ(Settings::read().nvrtc, "");
  setenv("EPIFUSE_NVRTC", "/a/libnvrtc.so", 1);
  EXPECT_EQ(Settings::read().nvrtc, "/a/libnvrtc.so");
  unsetenv("EPIFUSE_NVRTC");
  EXPECT_EQ(Settings::read().nvrtc, "");
}

TEST(Settings, AreListedOnceEachWithAMeaning) {
  std::set<std::string_view> variables;
  for (const SettingInfo& row : all_settings()) {
    EXPECT_TRUE(variables.insert(row.variable).second) << row.variable;
    EXPECT_FALSE(row.meaning.empty()) << row.variable;
  }
  EXPECT_TRUE(variables.contains("EPIFUSE_CACHE"));
}

}  // namespace
}  // namespace epifuse
