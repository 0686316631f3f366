// Size polynomials: normal form, arithmetic, text, exact division, limits.
#include "epifuse/dim.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "epifuse/error.h"

namespace epifuse {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
const Dim kM("M"), kN("N"), kB("B");

TEST(Dim, NormalForm) {
  EXPECT_EQ(kM + kN, kN + kM);
  EXPECT_EQ((kM + 1) * (kM - 1), kM * kM - 1);
  EXPECT_EQ(kM - kM, Dim(0));
  EXPECT_EQ(kM * 0, Dim());
  EXPECT_EQ((kM + kN) * (kM + kN), kM * kM + 2 * kM * kN + kN * kN);
  EXPECT_NE(kM, kN);
  EXPECT_NE(kM * kM, kM);
}

TEST(Dim, Text) {
  EXPECT_EQ(Dim(768).str(), "768");
  EXPECT_EQ(Dim(0).str(), "0");
  EXPECT_EQ(Dim(-3).str(), "-3");
  EXPECT_EQ(kM.str(), "M");
  EXPECT_EQ((2 * kM + 1).str(), "2*M+1");
  EXPECT_EQ((Dim("S") * kB).str(), "B*S");
  EXPECT_EQ((5 - kM).str(), "5-M");
  EXPECT_EQ((1 + kM * kM - 3 * kN).str(), "M*M+1-3*N");
  EXPECT_EQ((0 - 2 * kM - 1).str(), "-2*M-1");
  EXPECT_EQ(Dim(std::numeric_limits<std::int64_t>::min()).str(), "-9223372036854775808");
}

TEST(Dim, Parts) {
  EXPECT_EQ(Dim(7).constant(), 7);
  EXPECT_EQ(Dim(0).constant(), 0);
  EXPECT_EQ((kM + 1).constant(), std::nullopt);
  EXPECT_TRUE((kM + 1 - kM).is(1));
  EXPECT_EQ(kM.symbol(), "M");
  EXPECT_EQ((2 * kM).symbol(), std::nullopt);
  EXPECT_EQ((kM * kM).symbol(), std::nullopt);
  EXPECT_EQ(Dim(1).symbol(), std::nullopt);
  EXPECT_EQ((kN * kM + kB * kM).symbols(), (std::vector<std::string>{"B", "M", "N"}));
  for (const char* bad : {"", "1M", "M N", "M*N", "é"}) EXPECT_THROW(Dim{bad}, ArgumentError);
}

TEST(Dim, Eval) {
  EXPECT_EQ((2 * kM * kN - kM + 3).eval({{"M", 5}, {"N", 7}}), 68);
  EXPECT_EQ(Dim(4).eval({}), 4);
  try {
    (kM + kN).eval({{"M", 1}});
    FAIL() << "evaluated without N";
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(), "size N has no value");
  }
  EXPECT_THROW((kM * kN).eval({{"M", kMax}, {"N", 2}}), ArgumentError);
  EXPECT_THROW((kM + kN).eval({{"M", kMax}, {"N", 1}}), ArgumentError);
}

TEST(Dim, OverflowIsAnError) {
  EXPECT_THROW(Dim(kMax) + 1, GraphError);
  EXPECT_THROW(Dim(kMax) * 2, GraphError);
  EXPECT_THROW((kMax * kM) * 2, GraphError);
  EXPECT_THROW(Dim(-2) - kMax, GraphError);
}

TEST(Dim, ExpressionsStaySmall) {
  Dim sum = 0, power = 1;
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i) sum = sum + Dim("x" + std::to_string(i));
      },
      GraphError);
  EXPECT_EQ(sum.symbols().size(), 64u);
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i) power = power * kM;
      },
      GraphError);
}

TEST(Dim, Division) {
  EXPECT_EQ((4 * kM * kN + 8 * kM).divide(4 * kM), kN + 2);
  EXPECT_EQ((4 * kM + 2).divide(4), std::nullopt);
  EXPECT_EQ((kM * kN + 1).divide(kM), std::nullopt);
  EXPECT_EQ((kM * kM - 1).divide(kM + 1), kM - 1);
  EXPECT_EQ((kM * kM + 1).divide(kM + 1), std::nullopt);
  EXPECT_EQ(Dim(0).divide(kM), Dim(0));
  EXPECT_EQ(kM.divide(0), std::nullopt);
  EXPECT_EQ(kM.divide(-1), 0 - kM);
  EXPECT_EQ(Dim(7).divide(kM), std::nullopt);
  EXPECT_THROW(Dim(std::numeric_limits<std::int64_t>::min()).divide(-1), GraphError);
}

// A random polynomial of a few small terms.
Dim random_dim(std::mt19937& random) {
  const Dim symbols[] = {kM, kN, kB};
  Dim sum = static_cast<std::int64_t>(random() % 5) - 2;
  for (unsigned term = random() % 3 + 1; term-- > 0;) {
    Dim product = static_cast<std::int64_t>(random() % 7) - 3;
    for (unsigned factor = random() % 3; factor-- > 0;) product = product * symbols[random() % 3];
    sum = sum + product;
  }
  return sum;
}

TEST(Dim, ArithmeticAgreesWithNumbers) {
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    const Dim a = random_dim(random), b = random_dim(random);
    const Sizes sizes = {{"M", static_cast<std::int64_t>(random() % 50)},
                         {"N", static_cast<std::int64_t>(random() % 50)},
                         {"B", static_cast<std::int64_t>(random() % 50)}};
    ASSERT_EQ((a + b).eval(sizes), a.eval(sizes) + b.eval(sizes));
    ASSERT_EQ((a - b).eval(sizes), a.eval(sizes) - b.eval(sizes));
    ASSERT_EQ((a * b).eval(sizes), a.eval(sizes) * b.eval(sizes));
    if (b != Dim(0)) {
      ASSERT_EQ((a * b).divide(b), a) << a.str() << " / " << b.str();
    }
  }
}

}  // namespace
}  // namespace epifuse
