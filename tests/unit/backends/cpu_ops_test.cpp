// Op loops against ops.def in double, and reductions, for every instruction set this machine has.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backends/cpu/strips.h"
#include "ir/op.h"

namespace epifuse::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kEps = 0x1p-24;

std::vector<const StripKernels*> tables() {
  const StripTables found = available_strips();
  return {found.tables, found.tables + found.count};
}

std::vector<ir::OpInfo> table_ops() {
  std::vector<ir::OpInfo> ops;
  for (const ir::OpInfo& info : ir::all_ops()) {
    if (info.reference != nullptr) ops.push_back(info);
  }
  return ops;
}

// Special values, then numbers of every magnitude and many of the usual ones.
std::vector<float> samples(std::uint64_t seed, std::size_t count) {
  std::vector<float> result{0.0f,      -0.0f,      1.0f,   -1.0f, 3.0f,  -3.0f,         20.0f,
                            20.00001f, kInfinity,  -88.0f, 88.7f, 89.0f, -104.0f,       1e-30f,
                            1e30f,     -kInfinity, -1e30f, 0.5f,  6.0f,  std::nanf(""), -1e-30f};
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> usual(-12, 12), exponent(-100, 100);
  while (result.size() < count) {
    result.push_back(usual(random));
    result.push_back(std::ldexp(usual(random) / 12, static_cast<int>(exponent(random))));
  }
  result.resize(count);
  return result;
}

// The bound of ops.def: expr at x * (1 +- in_eps * eps), then * (1 +- out_eps * eps).
bool within_bound(const ir::OpInfo& info, const double* x, float got, double* low, double* high) {
  const double value = info.reference(x);
  if (std::isnan(value)) return std::isnan(got);
  if (std::isinf(value) || info.out_eps == 0) {
    *low = *high = value;
    return got == static_cast<float>(value);
  }
  *low = *high = value;
  for (const double side : {-1.0, 1.0}) {
    double moved[3] = {x[0] * (1 + side * info.in_eps * kEps), x[1], x[2]};
    const double y = info.in_eps > 0 ? info.reference(moved) : value;
    *low = std::min(*low, y);
    *high = std::max(*high, y);
  }
  // Subnormals may be flushed, and intermediate values beyond float's range end in 0.
  const double slack = std::numeric_limits<float>::min() * (1 + std::abs(x[0]));
  *low -= std::abs(*low) * info.out_eps * kEps + slack;
  *high += std::abs(*high) * info.out_eps * kEps + slack;
  const float rounded_low = static_cast<float>(*low), rounded_high = static_cast<float>(*high);
  return got >= rounded_low && got <= rounded_high;
}

TEST(CpuOps, WithinTheBoundsOfTheTable) {
  constexpr std::size_t kCount = 1 << 16;
  const std::vector<float> x0 = samples(1, kCount);
  std::vector<float> x1 = samples(2, kCount), x2 = samples(3, kCount), out(kCount);
  std::rotate(x1.begin(), x1.begin() + 5, x1.begin() + 21);  // specials meet other specials
  const std::vector<ir::OpInfo> ops = table_ops();
  ASSERT_EQ(ops.size(), static_cast<std::size_t>(kNumOps));
  for (const StripKernels* strips : tables()) {
    for (std::size_t row = 0; row < ops.size(); ++row) {
      strips->op[row](out.data(), x0.data(), x1.data(), x2.data(), kCount);
      int num_failed = 0;
      for (std::size_t i = 0; i < kCount && num_failed < 5; ++i) {
        const double x[3] = {x0[i], x1[i], x2[i]};
        double low = NAN, high = NAN;
        const bool ok = within_bound(ops[row], x, out[i], &low, &high);
        num_failed += ok ? 0 : 1;
        EXPECT_TRUE(ok) << strips->name << ' ' << ops[row].name << '(' << x[0] << ", " << x[1]
                        << ", " << x[2] << ") = " << out[i] << ", expected within [" << low << ", "
                        << high << ']';
      }
    }
  }
}

// Where it is no factor of anything, only subnormal results may be flushed.
TEST(CpuOps, ExpOfAllThatHasANormalResult) {
  const std::vector<ir::OpInfo> ops = table_ops();
  const auto row = std::find_if(ops.begin(), ops.end(),
                                [](const ir::OpInfo& info) { return info.name == "exp"; });
  std::vector<float> x, out;
  for (float at = -87.33654f; at < 88.72283f; at += 0.00731f) x.push_back(at);
  for (const float end : {-87.33654f, 88.72283f, -0.0f, 1e-38f}) x.push_back(end);
  x.resize(static_cast<std::size_t>(padded(static_cast<std::int64_t>(x.size()))));
  out.resize(x.size());
  for (const StripKernels* strips : tables()) {
    strips->op[row - ops.begin()](out.data(), x.data(), x.data(), x.data(),
                                  static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double value = std::exp(double{x[i]});
      EXPECT_NEAR(out[i], value, value * row->out_eps * kEps) << strips->name << ' ' << x[i];
    }
  }
}

TEST(CpuOps, SignedZerosAndNanPassThrough) {
  const std::vector<ir::OpInfo> ops = table_ops();
  const auto run = [&](const StripKernels& strips, std::string_view name, float x, float y) {
    const auto found = std::find_if(ops.begin(), ops.end(),
                                    [&](const ir::OpInfo& info) { return info.name == name; });
    std::vector<float> x0(kLanes, x), x1(kLanes, y), x2(kLanes, 1.0f), out(kLanes);
    strips.op[found - ops.begin()](out.data(), x0.data(), x1.data(), x2.data(), kLanes);
    return out[kLanes - 1];
  };
  for (const StripKernels* strips : tables()) {
    EXPECT_TRUE(std::signbit(run(*strips, "relu", -0.0f, 0)));
    EXPECT_TRUE(std::signbit(run(*strips, "neg", 0.0f, 0)));
    EXPECT_TRUE(std::signbit(run(*strips, "mul", -0.0f, 2.0f)));
    EXPECT_FALSE(std::signbit(run(*strips, "add", -0.0f, 0.0f)));
    for (const char* name : {"relu", "max", "min", "clamp", "silu", "gelu_erf", "tanh", "abs"}) {
      EXPECT_TRUE(std::isnan(run(*strips, name, NAN, 0.5f))) << strips->name << ' ' << name;
    }
    EXPECT_TRUE(std::isnan(run(*strips, "max", 0.5f, NAN)));
    EXPECT_TRUE(std::isnan(run(*strips, "min", 0.5f, NAN)));
  }
}

TEST(CpuOps, AResultDoesNotDependOnItsPlace) {
  const std::vector<float> x = samples(4, 256);
  for (const StripKernels* strips : tables()) {
    for (int row = 0; row < kNumOps; ++row) {
      std::vector<float> whole(256), part(kLanes);
      strips->op[row](whole.data(), x.data(), x.data(), x.data(), 256);
      for (std::int64_t i = 0; i + kLanes <= 256; i += 5) {
        strips->op[row](part.data(), x.data() + i, x.data() + i, x.data() + i, kLanes);
        for (std::int64_t j = 0; j < kLanes; ++j) {
          ASSERT_EQ(
              std::bit_cast<std::uint32_t>(part[static_cast<std::size_t>(j)]) & 0x7fffffffu,
              std::bit_cast<std::uint32_t>(whole[static_cast<std::size_t>(i + j)]) & 0x7fffffffu)
              << strips->name << ' ' << row;
        }
      }
    }
  }
}

TEST(CpuReductions, SumsAndMaximaOfEveryLength) {
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> x(100);
  for (float& value : x) value = normal(random);
  for (const StripKernels* strips : tables()) {
    for (std::int64_t n = 0; n <= 100; ++n) {
      double sum = 0, magnitude = 0, max = -kInfinity;
      for (std::int64_t i = 0; i < n; ++i) {
        const double value = x[static_cast<std::size_t>(i)];
        sum += value;
        magnitude += std::abs(value);
        max = std::max(max, value);
      }
      EXPECT_NEAR(strips->sum(x.data(), n), sum, magnitude * 1e-15 * 100) << n;
      EXPECT_EQ(strips->max(x.data(), n), max) << n;
    }
  }
}

TEST(CpuReductions, NanWinsWhereverItIs) {
  for (const StripKernels* strips : tables()) {
    for (std::size_t place = 0; place < 37; ++place) {
      std::vector<float> x(37, 1.0f);
      x[place] = NAN;
      EXPECT_TRUE(std::isnan(strips->max(x.data(), 37))) << place;
      std::vector<double> top(37, 2.0);
      strips->max_to(top.data(), x.data(), 37);
      EXPECT_TRUE(std::isnan(top[place]));
      x.assign(37, 3.0f);
      strips->max_to(top.data(), x.data(), 37);
      EXPECT_TRUE(std::isnan(top[place])) << "a NaN met before stays";
    }
  }
}

}  // namespace
}  // namespace epifuse::cpu
