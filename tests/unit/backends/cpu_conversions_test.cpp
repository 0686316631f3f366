// Conversions of the strip loops, for every instruction set this machine has: all narrow values one
// way, all neighbourhoods of rounding boundaries the other.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cpu/strips.h"
#include "base/float_types.h"

namespace epifuse::cpu {
namespace {

constexpr DType kNarrow[] = {DType::bf16, DType::f16, DType::e4m3, DType::e5m2};

std::vector<const StripKernels*> tables() {
  const StripTables found = available_strips();
  return {found.tables, found.tables + found.count};
}

bool same(double x, double y) {
  return (std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y));
}

std::size_t num_patterns(DType dtype) { return std::size_t{1} << (8 * size_bytes(dtype)); }

// All values of a narrow dtype, in order of their bits.
std::vector<unsigned char> all_values(DType dtype) {
  const std::size_t bytes = size_bytes(dtype);
  std::vector<unsigned char> memory(num_patterns(dtype) * bytes);
  for (std::size_t i = 0; i < num_patterns(dtype); ++i) std::memcpy(&memory[i * bytes], &i, bytes);
  return memory;
}

// Every value of the dtype, the midpoints between neighbours, and floats just beside both.
std::vector<float> boundaries(DType dtype) {
  const std::vector<unsigned char> memory = all_values(dtype);
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> result{infinity, -infinity, std::nanf(""), 0.0f, -0.0f, 1e30f, -1e30f, 1e-44f};
  for (std::size_t i = 0; i + 1 < num_patterns(dtype); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    const double value = load_element(memory.data(), dtype, index);
    const double next = load_element(memory.data(), dtype, index + 1);
    if (!std::isfinite(value)) continue;
    const double gap = std::isfinite(next) ? next - value : ulp(value, dtype);
    for (const double x : {value, value + gap / 2}) {
      const auto middle = static_cast<float>(x);
      result.push_back(middle);
      result.push_back(std::nextafter(middle, infinity));
      result.push_back(std::nextafter(middle, -infinity));
    }
  }
  return result;
}

TEST(CpuConversions, EveryNarrowValueWidens) {
  for (const StripKernels* strips : tables()) {
    for (const DType dtype : kNarrow) {
      const std::vector<unsigned char> memory = all_values(dtype);
      std::vector<float> out(num_patterns(dtype));
      strips->load[static_cast<int>(dtype)](out.data(), memory.data(), 1,
                                            static_cast<std::int64_t>(out.size()));
      for (std::size_t i = 0; i < out.size(); ++i) {
        const double expected = load_element(memory.data(), dtype, static_cast<std::int64_t>(i));
        ASSERT_TRUE(same(out[i], expected)) << strips->name << ' ' << name(dtype) << ' ' << i;
      }
    }
  }
}

TEST(CpuConversions, StoresRoundToNearestEven) {
  for (const StripKernels* strips : tables()) {
    for (const DType dtype : kNarrow) {
      const std::vector<float> in = boundaries(dtype);
      const auto n = static_cast<std::int64_t>(in.size());
      std::vector<unsigned char> out(in.size() * size_bytes(dtype));
      strips->store[static_cast<int>(dtype)](out.data(), 1, in.data(), n);
      for (std::int64_t i = 0; i < n; ++i) {
        const float x = in[static_cast<std::size_t>(i)];
        ASSERT_TRUE(same(load_element(out.data(), dtype, i), round_to(x, dtype)))
            << strips->name << ' ' << name(dtype) << ' ' << x;
      }
    }
  }
}

TEST(CpuConversions, RoundingInRegistersIsStoreAndLoad) {
  for (const StripKernels* strips : tables()) {
    for (const DType dtype : kNarrow) {
      std::vector<float> in = boundaries(dtype);
      const auto n = static_cast<std::int64_t>(in.size());
      in.resize(static_cast<std::size_t>(padded(n)));
      std::vector<float> out(in.size());
      strips->round[static_cast<int>(dtype)](out.data(), in.data(), n);
      for (std::size_t i = 0; i < out.size(); ++i) {
        ASSERT_TRUE(same(out[i], round_to(in[i], dtype)))
            << strips->name << ' ' << name(dtype) << ' ' << in[i];
      }
    }
  }
}

TEST(CpuConversions, StridesAndRepeats) {
  for (const StripKernels* strips : tables()) {
    const std::vector<unsigned char> memory = all_values(DType::f16);
    std::vector<float> out(100);
    strips->load[static_cast<int>(DType::f16)](out.data(), memory.data(), 3, 100);
    for (int i = 0; i < 100; ++i) {
      ASSERT_EQ(out[static_cast<std::size_t>(i)], load_element(memory.data(), DType::f16, 3 * i));
    }
    strips->load[static_cast<int>(DType::f16)](out.data(), memory.data() + 14, 0, 100);
    for (const float x : out) ASSERT_EQ(x, load_element(memory.data(), DType::f16, 7));
    std::vector<unsigned char> spread(300, 7);
    std::vector<float> flags(100);
    for (std::size_t i = 0; i < 100; ++i) flags[i] = i % 3 == 0 ? 2.0f : 0.0f;
    strips->store[static_cast<int>(DType::boolean)](spread.data(), 3, flags.data(), 100);
    for (std::size_t i = 0; i < 300; ++i) {
      ASSERT_EQ(spread[i], i % 3 != 0 ? 7 : i % 9 == 0 ? 1 : 0) << i;
    }
  }
}

}  // namespace
}  // namespace epifuse::cpu
