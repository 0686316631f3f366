// A family made up for the test, as docs/adding-a-kernel-family.md says: what its row hands on.
#include "codegen/family_row.h"

#include <gtest/gtest.h>

#include <set>

#include "epifuse/error.h"

namespace epifuse::codegen {
namespace made_up {

struct Config {
  int size = 0;
  bool operator==(const Config&) const = default;
};
std::string print(const Config& config) { return "size " + std::to_string(config.size); }
std::optional<Config> leaner(const Config&) { return std::nullopt; }

struct Variant {
  bool is_exchanged = false;
  bool operator==(const Variant&) const = default;
};
std::string print(const Variant& variant) { return variant.is_exchanged ? "exchanged" : ""; }
std::string key(const Variant& variant) { return print(variant); }

struct Functions {
  using Config = made_up::Config;
  using Variant = made_up::Variant;
  static std::optional<plan::WhyNot> why_not(const plan::Plan&, const plan::FusedGemm&,
                                             const targets::TargetInfo& target) {
    if (target.kind == DeviceKind::cuda) return std::nullopt;
    return plan::WhyNot{"target", "it is no GPU."};
  }
  static std::vector<Config> configs(const plan::FusedGemm&, const targets::TargetInfo&) {
    return {{3}, {1}, {2}};
  }
  static double expected_us(const plan::FusedGemm&, const Config& config, const GemmSizes& sizes,
                            const targets::DeviceProfile&) {
    return static_cast<double>(config.size * sizes.m);
  }
  static KernelSource source(const plan::Plan&, const plan::FusedGemm&, const Config& config,
                             const Variant& variant, const targets::TargetInfo& target) {
    return {"entry", print(config) + print(variant), std::string(target.name)};
  }
  static std::optional<plan::WhyNot> why_not_bound(const plan::Plan&, const plan::FusedGemm&,
                                                   const Bound&) {
    return std::nullopt;
  }
  static std::optional<Config> fitted(const plan::FusedGemm&, const Config& config,
                                      const Variant& variant, const targets::TargetInfo&) {
    if (!variant.is_exchanged) return config;
    return config.size == 3 ? std::nullopt : std::optional(Config{config.size + 10});
  }
  static Variant variant(const plan::Plan&, const plan::FusedGemm&, const Bound& bound) {
    return {bound.sizes.at("M") % 2 != 0};
  }
  static OperandRoles roles(const Variant& variant) { return {variant.is_exchanged, false, false}; }
  static Partials partials(const plan::FusedGemm&, const Config& config, const Variant&,
                           const Sizes&, const targets::DeviceLimits&) {
    Partials out;
    out.num_parts = config.size;
    return out;
  }
  static Launch launch(const plan::Plan&, const plan::FusedGemm&, const Config& config,
                       const Variant& variant, const Bound&, const targets::DeviceLimits&) {
    Launch out;
    out.grid = static_cast<unsigned>(config.size);
    out.cluster = variant.is_exchanged ? 2 : 1;
    return out;
  }
};

}  // namespace made_up

namespace {

Bound bound_of(std::int64_t rows) {
  Bound bound;
  bound.sizes["M"] = rows;
  return bound;
}

class MadeUpFamily : public ::testing::Test {
 protected:
  const KernelFamily family_ = family_row<made_up::Functions>("made_up", "Of the test.");
  const targets::TargetInfo& gpu_ = targets::usual_target(DeviceKind::cuda);
  const plan::Plan plan_{};
  const plan::FusedGemm step_{};
  const std::vector<GemmConfig> configs_ = family_.configs(step_, gpu_);
  const GemmVariant exchanged_ = family_.variant(plan_, step_, bound_of(1));
};

TEST_F(MadeUpFamily, NamesConfigsAndChoosesAmongThem) {
  EXPECT_FALSE(family_.why_not(plan_, step_, gpu_));
  EXPECT_TRUE(family_.why_not(plan_, step_, targets::usual_target(DeviceKind::cpu)));
  ASSERT_EQ(configs_.size(), 3u);
  EXPECT_EQ(print(configs_[0]), "size 3");
  EXPECT_EQ(choose(family_, step_, configs_, {1, 8, 1, 1}, {}), 1u);
  EXPECT_EQ(configs_as<made_up::Config>(configs_)[2].size, 2);
  EXPECT_EQ(family_.pointer_arrays, nullptr);
}

TEST_F(MadeUpFamily, TheUsualVariantHoldsNothing) {
  const GemmVariant usual = family_.variant(plan_, step_, bound_of(2));
  EXPECT_TRUE(usual.is_empty());
  EXPECT_FALSE(family_.roles(usual).are_exchanged);
  EXPECT_EQ(family_.fitted(step_, configs_[0], usual, gpu_), configs_[0]);
  EXPECT_EQ(family_.source(plan_, step_, configs_[0], usual, gpu_).text, "size 3");
}

TEST_F(MadeUpFamily, AnotherVariantComesBackToItsFamily) {
  EXPECT_EQ(print(exchanged_), "exchanged");
  EXPECT_TRUE(family_.roles(exchanged_).are_exchanged);
  EXPECT_FALSE(family_.fitted(step_, configs_[0], exchanged_, gpu_));
  EXPECT_EQ(family_.fitted(step_, configs_[1], exchanged_, gpu_), GemmConfig(made_up::Config{11}));
  EXPECT_EQ(fitted(family_, step_, configs_, exchanged_, gpu_),
            (std::vector{GemmConfig(made_up::Config{11}), GemmConfig(made_up::Config{12})}));
  EXPECT_EQ(family_.source(plan_, step_, configs_[1], exchanged_, gpu_).text, "size 1exchanged");
  EXPECT_EQ(family_.partials(step_, configs_[2], exchanged_, {}, {}).num_parts, 2);
  const Launch launch = family_.launch(plan_, step_, configs_[2], exchanged_, bound_of(1), {});
  EXPECT_EQ(launch.grid, 2u);
  EXPECT_EQ(launch.cluster, 2u);
}

TEST_F(MadeUpFamily, ConfigsOfOtherFamiliesAreRefused) {
  const KernelFamily& other = all_families().front();
  EXPECT_THROW(other.expected_us(step_, configs_[0], {1, 8, 8, 8}, {}), InternalError);
}

TEST(Families, HaveNamesOfTheirOwnAndAllFunctions) {
  std::set<std::string_view> names;
  for (const KernelFamily& family : all_families()) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_FALSE(family.summary.empty());
    EXPECT_TRUE(family.why_not && family.configs && family.expected_us && family.source &&
                family.why_not_bound && family.fitted && family.variant && family.roles &&
                family.partials && family.launch);
  }
  EXPECT_FALSE(names.empty());
}

}  // namespace
}  // namespace epifuse::codegen
