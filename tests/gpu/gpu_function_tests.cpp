// Every function that generated kernels call stays within the bound that ops.def states of it,
// which is the bound that all verification grants (docs/numerics.md).
#include <gtest/gtest.h>

#include "check/op_accuracy.h"

namespace epifuse {
namespace {

constexpr std::size_t kNumUsual = std::size_t{1} << 20;

void expect_within_bound(Numerics numerics) {
  for (const ir::Op op : measurable_ops()) {
    if (numerics == Numerics::approx && !has_own_approx(op)) continue;
    const OpAccuracy found = measure_accuracy(op, numerics, Target::cuda(), kNumUsual);
    EXPECT_GE(found.num_samples, static_cast<std::int64_t>(kNumUsual));
    EXPECT_EQ(found.num_refused, 0) << "of " << found.num_samples << ": " << found.first_refused;
  }
}

TEST(GpuFunctions, StayWithinTheirBoundsUnderFast) { expect_within_bound(Numerics::fast); }
TEST(GpuFunctions, StayWithinTheirBoundsUnderApprox) { expect_within_bound(Numerics::approx); }

}  // namespace
}  // namespace epifuse
