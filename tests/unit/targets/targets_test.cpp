#include "targets/targets.h"

#include <gtest/gtest.h>

namespace epifuse::targets {
namespace {

TEST(Targets, AreFoundByTheirNames) {
  for (const TargetInfo& target : all_targets()) EXPECT_EQ(find_target(target.name), &target);
  EXPECT_EQ(find_target("sm_1"), nullptr);
}

TEST(Targets, GpusRunWhatWasCompiledForTheirGeneration) {
  const auto name = [](int major, int minor) {
    const TargetInfo* target = target_of_gpu(major, minor);
    return target == nullptr ? "" : target->name;
  };
  EXPECT_EQ(name(9, 0), "sm_90a");  // rather than what any GPU of 9.0 and later runs
  EXPECT_EQ(name(8, 0), "sm_80");
  EXPECT_EQ(name(8, 9), "sm_89");
  EXPECT_EQ(name(8, 8), "sm_87");
  EXPECT_EQ(name(9, 1), "sm_90");  // as sm_90a is for one architecture alone
  EXPECT_EQ(name(12, 1), "sm_120");
  EXPECT_EQ(name(7, 5), "");
  EXPECT_EQ(name(0, 0), "");  // of no GPU
}

TEST(Targets, TheFirstOfAKindIsTheUsualOne) {
  EXPECT_EQ(usual_target(DeviceKind::cpu).name, "cpu");
  const TargetInfo& gpu = usual_target(DeviceKind::cuda);
  EXPECT_EQ(gpu.kind, DeviceKind::cuda);
  for (const TargetInfo& target : all_targets()) {
    if (target.kind != DeviceKind::cuda) continue;
    EXPECT_EQ(&target, &gpu);
    break;
  }
}

}  // namespace
}  // namespace epifuse::targets
