// Named machines and the least time that work takes on them.
#include "explain/machines.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "epifuse/error.h"

namespace epifuse {
namespace {

TEST(Machines, AreFoundByNameAndByKind) {
  EXPECT_EQ(find_machine("a100", DeviceKind::cpu).description, "NVIDIA A100 SXM 80 GB");
  EXPECT_EQ(find_machine("", DeviceKind::cuda).name, "h200");
  EXPECT_EQ(find_machine("", DeviceKind::cpu).kind, DeviceKind::cpu);
}

TEST(Machines, AnUnknownNameIsToldTheChoices) {
  try {
    find_machine("h300", DeviceKind::cuda);
    FAIL() << "h300 was found";
  } catch (const ArgumentError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("'h300'"), std::string::npos) << text;
    for (const Machine& machine : all_machines()) {
      EXPECT_NE(text.find(machine.name), std::string::npos) << text;
    }
  }
}

TEST(Machines, RowsAreSane) {
  std::set<std::string_view> names;
  for (const Machine& machine : all_machines()) {
    EXPECT_TRUE(names.insert(machine.name).second) << machine.name;
    EXPECT_GE(machine.i8_flops_per_s, machine.fp8_flops_per_s) << machine.name;
    EXPECT_GE(machine.fp8_flops_per_s, machine.bf16_flops_per_s) << machine.name;
    EXPECT_GE(machine.bf16_flops_per_s, machine.f32_flops_per_s) << machine.name;
    EXPECT_GT(machine.f32_flops_per_s, machine.bytes_per_s) << machine.name;
    EXPECT_GT(machine.bytes_per_s, 1e10) << machine.name;
  }
}

TEST(Machines, TheLongerOfWorkAndTrafficCounts) {
  const Machine machine{"m", DeviceKind::cuda, 400, 200, 100, 10, 5, ""};
  EXPECT_DOUBLE_EQ(seconds_at_limits(machine, 1000, DType::bf16, 5), 10);
  EXPECT_DOUBLE_EQ(seconds_at_limits(machine, 1000, DType::f32, 5), 100);
  EXPECT_DOUBLE_EQ(seconds_at_limits(machine, 1000, DType::e4m3, 5), 5);
  EXPECT_DOUBLE_EQ(seconds_at_limits(machine, 1000, DType::i8, 5), 2.5);
  EXPECT_DOUBLE_EQ(seconds_at_limits(machine, 1000, DType::f16, 100), 20);
}

}  // namespace
}  // namespace epifuse
