// Which results of two kernels count as the same.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "backends/cuda/choose/alike.h"
#include "base/float_types.h"

namespace epifuse::cuda {
namespace {

using Numbers = std::vector<double>;

std::vector<unsigned char> stored(const Numbers& numbers, DType dtype) {
  std::vector<unsigned char> out(numbers.size() * size_bytes(dtype));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    store_element(out.data(), dtype, static_cast<std::int64_t>(i), numbers[i]);
  }
  return out;
}

bool alike(const Numbers& a, const Numbers& b, DType dtype, FarOff far_off) {
  return are_alike(stored(a, dtype), stored(b, dtype), dtype, far_off);
}

TEST(CudaAlike, RoundingsMayDiffer) {
  const Numbers a{1, -2, 3, 100};
  EXPECT_TRUE(alike(a, {1, -2, 3, 101}, DType::bf16, FarOff::none));
  EXPECT_FALSE(alike(a, {1, -2, 3, 60}, DType::bf16, FarOff::none));
  EXPECT_FALSE(alike(a, {1, -2, 30, 100}, DType::f32, FarOff::none));
}

// From 256 on numbers of e4m3 are 32 apart, those of e5m2 64.
TEST(CudaAlike, OneStepOf8BitsIsARounding) {
  const Numbers a{256, 16, -8, 1};
  EXPECT_TRUE(alike(a, {288, 16, -8, 1}, DType::e4m3, FarOff::none));
  EXPECT_FALSE(alike(a, {352, 16, -8, 1}, DType::e4m3, FarOff::none));
  EXPECT_TRUE(alike(a, {320, 16, -8, 1}, DType::e5m2, FarOff::none));
}

TEST(CudaAlike, OfQuantisedResultsFewMayBeFarOff) {
  Numbers a(640, 64.0), b = a;
  for (std::size_t i = 0; i < 10; ++i) b[i] = 128;
  EXPECT_FALSE(alike(a, b, DType::e4m3, FarOff::none));
  EXPECT_TRUE(alike(a, b, DType::e4m3, FarOff::few));
  b[10] = 128;
  EXPECT_FALSE(alike(a, b, DType::e4m3, FarOff::few));
}

// What was not written is NaN, and never among the few.
TEST(CudaAlike, NanIsAlikeNanAlone) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Numbers a(640, 1.0), b = a;
  b[7] = nan;
  EXPECT_FALSE(alike(a, b, DType::e4m3, FarOff::few));
  EXPECT_FALSE(alike(b, a, DType::bf16, FarOff::few));
  EXPECT_TRUE(alike(b, b, DType::f32, FarOff::none));
}

}  // namespace
}  // namespace epifuse::cuda
