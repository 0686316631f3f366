#include "targets/targets.h"

#include <gtest/gtest.h>

namespace epifuse::targets {
namespace {

TEST(Targets, AreFoundByTheirNames) {
  for (const TargetInfo& target : all_targets()) EXPECT_EQ(find_target(target.name), &target);
  EXPECT_EQ(find_target("sm_1"), nullptr);
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
