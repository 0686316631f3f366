// What the cp.async + mma.sync GEMM's model of time expects, and what is chosen by it.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/sm80/gemm.h"
#include "ir/text.h"
#include "tests/unit/codegen/sm80_graphs.h"

namespace epifuse::codegen {
namespace {

class Product {
 public:
  explicit Product(const char* text) : plan_(plan::make_plan(ir::parse(text), {})) {}
  const plan::FusedGemm& step() const { return std::get<plan::FusedGemm>(plan_.steps.front()); }

 private:
  plan::Plan plan_;
};

// Of 77 configs on an H100 these took at most 1.01 of the time of the fastest, with a residual.
TEST(Sm80Model, ExpectsLeastOfWhatWasFastest) {
  const targets::TargetInfo& target = *targets::find_target("sm_90a");
  const targets::DeviceProfile device = targets::reference_profile(target);
  const std::set<std::string> large = {"256x128 by 64x64, 32 deep, 4 stages",
                                       "256x128 by 64x64, 32 deep, 5 stages"};
  const std::set<std::string> medium = {"128x128 by 64x64, 64 deep, 3 stages"};
  const std::set<std::string> small = {"128x128 by 64x64, 64 deep, 4 stages",
                                       "128x128 by 64x64, 64 deep, 5 stages"};
  const std::set<std::string> few = {"64x128 by 32x64, 32 deep, 5 stages, split-K 4"};
  const std::pair<GemmSizes, const std::set<std::string>*> kFastest[] = {
      {{1, 16384, 4096, 4096}, &large}, {{1, 4096, 4096, 14336}, &large},
      {{1, 4096, 4096, 4096}, &large},  {{1, 1024, 8192, 8192}, &large},
      {{1, 4096, 3584, 3584}, &medium}, {{1, 16384, 1024, 1024}, &medium},
      {{1, 512, 4096, 4096}, &small},   {{1, 256, 8192, 28672}, &small},
      {{1, 128, 4096, 14336}, &few},
  };
  const Product product(kResidual);
  const std::vector<sm80::Config> configs = sm80::configs(product.step(), target);
  for (const auto& [sizes, fastest] : kFastest) {
    const auto best = std::ranges::min_element(configs, {}, [&](const sm80::Config& config) {
      return sm80::expected_us(product.step(), config, sizes, device);
    });
    EXPECT_EQ(fastest->count(print(*best)), 1u)
        << print(*best) << " at " << sizes.m << "x" << sizes.n << "x" << sizes.k;
  }
}

// 18x2560x233, both operands by elements, on an H200: 20.5, 31.1 and 16.5 us (`bench --sweep`).
TEST(Sm80Model, CountsCopiesOfRowsOffTheirBoundaries) {
  const targets::DeviceProfile device = targets::reference_profile(*targets::find_target("sm_90a"));
  const Product product(kResidual);
  const auto us = [&](const sm80::Config& config, std::int64_t row_bytes) {
    GemmSizes sizes{1, 18, 2560, 233};
    sizes.row_bytes_a = sizes.row_bytes_b = row_bytes;
    return sm80::expected_us(product.step(), config, sizes, device);
  };
  const sm80::Config narrow{64, 64, 32, 32, 128, 5}, wide{64, 128, 32, 64, 128, 4};
  sm80::Config split{64, 64, 32, 32, 64, 5};
  split.split_k = 4;
  EXPECT_GT(us(narrow, 466), us(narrow, 0) + 8);
  EXPECT_GT(us(wide, 466), us(narrow, 466) + 6);
  EXPECT_LT(us(split, 466) - us(split, 0), us(narrow, 466) - us(narrow, 0));
  EXPECT_EQ(us(narrow, 480), us(narrow, 0));
  EXPECT_GT(us(narrow, 468), us(narrow, 472));
  EXPECT_GT(us(narrow, 466), us(narrow, 468) + 5) << "by elements, not by cp.async";
}

// A product of bytes has half the steps of K; its instructions take as long as those of 16 bits
// where the target has them, and twice as long where they are two of f16.
TEST(Sm80Model, ExpectsHalfTheTimeWhereTensorCoresTake8Bits) {
  const sm80::Config config{128, 128, 64, 32, 64, 4};
  const auto us = [&](const char* text, const char* target) {
    const Product product(text);
    return sm80::expected_us(product.step(), config, {1, 8192, 8192, 8192},
                             targets::reference_profile(*targets::find_target(target)));
  };
  EXPECT_NEAR(us(kMixed8Bits, "sm_89") / us(kResidual, "sm_89"), 0.5, 0.05);
  EXPECT_NEAR(us(kMixed8Bits, "sm_120") / us(kResidual, "sm_120"), 0.5, 0.05);
  EXPECT_GT(us(kMixed8Bits, "sm_100") / us(kResidual, "sm_100"), 0.65);
}

sm80::Config chosen(const plan::FusedGemm& step, const targets::TargetInfo& target,
                    const GemmSizes& sizes) {
  const KernelFamily& family = *families_for(target, "sm80").front();
  const auto configs = family.configs(step, target);
  const targets::DeviceProfile device = targets::reference_profile(target);
  return configs[choose(family, step, configs, sizes, device)].as<sm80::Config>();
}

// Where tiles are too few for all SMs and K is long.
TEST(Sm80Model, SplitsKOfFewTilesOnEveryTarget) {
  const Product product(kResidual);
  for (const targets::TargetInfo& target : targets::all_targets()) {
    if (target.kind != DeviceKind::cuda) continue;
    SCOPED_TRACE(target.name);
    EXPECT_EQ(chosen(product.step(), target, {1, 4096, 4096, 4096}).split_k, 1);
    EXPECT_EQ(chosen(product.step(), target, {1, 256, 8192, 128}).split_k, 1);
    if (targets::reference_profile(target).limits.num_sms < 64) continue;
    EXPECT_GT(chosen(product.step(), target, {1, 64, 2048, 16384}).split_k, 1);
    EXPECT_GT(chosen(product.step(), target, {1, 256, 256, 8192}).split_k, 1);
  }
}

// Those of an H100 are rows of its own, whatever its driver says.
TEST(Sm80Model, ScalesTheTimeOfUnknownDevicesByTheirRates) {
  const targets::TargetInfo& ampere = *targets::find_target("sm_80");
  const Product product(kResidual);
  const sm80::Config config = sm80::configs(product.step(), ampere).front();
  const auto us = [&](const targets::DeviceProfile& device, const GemmSizes& sizes) {
    return sm80::expected_us(product.step(), config, sizes, device);
  };
  const auto device = [](const char* arch, const char* name, int sms, double mhz, double bytes) {
    return targets::make_profile(*targets::find_target(arch), name, sms, {mhz, bytes, 4e7});
  };
  const GemmSizes large{1, 8192, 8192, 8192}, thin{1, 64, 8192, 8192};
  const auto a100 = device("sm_80", "NVIDIA A100-SXM4-40GB", 108, 1410, 1.555e6);
  EXPECT_NEAR(us(device("sm_80", "Slower", 108, 705, 1.555e6), large) / us(a100, large), 2, 0.1);
  EXPECT_NEAR(us(device("sm_80", "Half", 54, 1410, 1.555e6), large) / us(a100, large), 2, 0.2);
  // Of 312 TFLOP/s of the data sheet between a half and all.
  const double flops = 2.0 * 8192 * 8192 * 8192 / us(a100, large) * 1e6;
  EXPECT_GT(flops, 150e12);
  EXPECT_LT(flops, 312e12);
  const auto l4 = device("sm_89", "NVIDIA L4", 58, 2040, 0.3e6);  // 121 TFLOP/s
  const double flops_of_l4 = 2.0 * 8192 * 8192 * 8192 / us(l4, large) * 1e6;
  EXPECT_GT(flops_of_l4, 50e12);
  EXPECT_LT(flops_of_l4, 121e12);
  EXPECT_GT(us(l4, thin), 64.0 * 8192 * 2 / 0.3 / 1e6 + 8192.0 * 8192 * 2 / 0.3e6)
      << "what its memory takes for B alone";
  const auto h100 = [&](double mhz) {
    return device("sm_90a", "NVIDIA H100 80GB HBM3", 132, mhz, 3.35e6);
  };
  EXPECT_EQ(us(h100(1980), large), us(h100(990), large));
  // A row may name the measurements of another card.
  const targets::KnownDevice alike{"Alike", h100(1980).known->measured};
  targets::DeviceProfile device_alike = h100(990);
  device_alike.known = &alike;
  EXPECT_EQ(us(device_alike, large), us(h100(1980), large));
}

}  // namespace
}  // namespace epifuse::codegen
