// Configs and variants as those see them who do not know their types.
#include <gtest/gtest.h>

#include "codegen/config.h"
#include "epifuse/error.h"

namespace epifuse::codegen {
namespace {

template <int kFamily>
struct Made {
  int size = 0;
  bool operator==(const Made&) const = default;
};
template <int kFamily>
std::string print(const Made<kFamily>& config) {
  return std::string(static_cast<std::size_t>(config.size), 'x');
}
template <int kFamily>
std::string key(const Made<kFamily>& config) {
  return print(config) + ".";
}
template <int kFamily>
std::optional<Made<kFamily>> leaner(const Made<kFamily>& config) {
  if (config.size <= 1) return std::nullopt;
  return Made<kFamily>{config.size / 2};
}

TEST(Opaque, ConfigsAreEqualWhereTypeAndValueAre) {
  const GemmConfig config(Made<1>{4});
  EXPECT_EQ(config, GemmConfig(Made<1>{4}));
  EXPECT_NE(config, GemmConfig(Made<1>{5}));
  EXPECT_NE(config, GemmConfig(Made<2>{4}));
  EXPECT_NE(config, GemmConfig());
  EXPECT_EQ(GemmConfig(), GemmConfig());
}

TEST(Opaque, OnlyTheRightTypeLooksInside) {
  const GemmConfig config(Made<1>{4});
  EXPECT_EQ(config.as<Made<1>>().size, 4);
  EXPECT_THROW(config.as<Made<2>>(), InternalError);
  EXPECT_THROW(GemmConfig().as<Made<1>>(), InternalError);
  EXPECT_THROW(print(GemmConfig()), InternalError);
}

TEST(Opaque, ConfigsPrintAndGetLeaner) {
  const GemmConfig config(Made<1>{4});
  EXPECT_EQ(print(config), "xxxx");
  ASSERT_TRUE(leaner(config).has_value());
  EXPECT_EQ(*leaner(config), GemmConfig(Made<1>{2}));
  EXPECT_FALSE(leaner(GemmConfig(Made<1>{1})).has_value());
}

TEST(Opaque, TheUsualVariantHoldsNothing) {
  EXPECT_TRUE(make_variant(Made<1>{}).is_empty());
  EXPECT_EQ(variant_as<Made<1>>(GemmVariant()), Made<1>{});
  EXPECT_EQ(print(GemmVariant()), "");
  EXPECT_EQ(key(GemmVariant()), "");
  const GemmVariant other = make_variant(Made<1>{3});
  EXPECT_NE(other, GemmVariant());
  EXPECT_EQ(variant_as<Made<1>>(other).size, 3);
  EXPECT_EQ(print(other), "xxx");
  EXPECT_EQ(key(other), "xxx.");
}

}  // namespace
}  // namespace epifuse::codegen
