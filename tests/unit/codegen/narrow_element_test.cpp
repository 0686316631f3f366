// e4m3 as kernels of GPUs without instructions for it read and write it, against the host's.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/float_types.h"
#include "cuda_on_host.h"
// The device's own, not what stands in for it.
#include "../../../kernels/common/element.cuh"

namespace epifuse {
namespace {

std::uint8_t stored(float x) {
  std::uint8_t y = 0;
  store_element(&y, DType::e4m3, 0, x);
  return y;
}

TEST(E4m3OnOldGpus, ReadsEveryPattern) {
  for (int bits = 0; bits < 256; ++bits) {
    const auto x = static_cast<std::uint8_t>(bits);
    const auto want = static_cast<float>(load_element(&x, DType::e4m3, 0));
    const float got = E4m3::load(x);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << bits;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(want)) << bits;
    }
  }
}

// All values, those in the middle of two, and those beside both.
TEST(E4m3OnOldGpus, RoundsToTheNearestEven) {
  const auto check = [](float x) {
    EXPECT_EQ(E4m3::store(x), stored(x)) << x;
    EXPECT_EQ(E4m3::store(-x), stored(-x)) << -x;
  };
  for (int bits = 0; bits < 0x7e; ++bits) {
    const float low = E4m3::load(static_cast<std::uint8_t>(bits));
    const float high = E4m3::load(static_cast<std::uint8_t>(bits + 1));
    const float middle = (low + high) / 2;
    for (const float x : {low, middle, std::nextafter(middle, low), std::nextafter(middle, high),
                          std::nextafter(low, high), std::nextafter(high, low)}) {
      check(x);
    }
  }
  for (const float x : {448.0f, 449.0f, 463.9f, 464.0f, 480.0f, 1e30f, 1e-30f, 1e-40f,
                        std::numeric_limits<float>::infinity()}) {
    check(x);
  }
  EXPECT_TRUE(std::isnan(E4m3::load(E4m3::store(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace epifuse
