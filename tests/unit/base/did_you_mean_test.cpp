// Names that were perhaps meant.
#include "base/did_you_mean.h"

#include <gtest/gtest.h>

namespace epifuse {
namespace {

constexpr std::string_view kOps[] = {"relu", "gelu_erf", "gelu_tanh", "matmul", "min", "M"};

TEST(DidYouMean, NamesWhatTheWordIsAPartOf) {
  EXPECT_EQ(did_you_mean("gelu", kOps), " (did you mean 'gelu_erf' or 'gelu_tanh'?)");
  EXPECT_EQ(did_you_mean("Tanh", kOps), " (did you mean 'gelu_tanh'?)");
  constexpr std::string_view kMany[] = {"a_sum_b_c_d", "sum_1", "sum_23", "x_sum", "yy_sum"};
  EXPECT_EQ(did_you_mean("sum", kMany), " (did you mean 'sum_1', 'x_sum', 'sum_23' or 'yy_sum'?)");
}

TEST(DidYouMean, NamesTheNearestOne) {
  EXPECT_EQ(did_you_mean("rely", kOps), " (did you mean 'relu'?)");
  EXPECT_EQ(did_you_mean("gelu_ref", kOps), " (did you mean 'gelu_erf'?)");
  EXPECT_EQ(did_you_mean("geluerf", kOps), " (did you mean 'gelu_erf'?)");
}

TEST(DidYouMean, KnowsCase) {
  EXPECT_EQ(did_you_mean("m", kOps), " (did you mean 'M'?)");
  EXPECT_EQ(did_you_mean("MATMUL", kOps), " (did you mean 'matmul'?)");
}

TEST(DidYouMean, GuessesNothingFarAway) {
  EXPECT_EQ(did_you_mean("Q", kOps), "");
  EXPECT_EQ(did_you_mean("", kOps), "");
  EXPECT_EQ(did_you_mean("frobnicate", kOps), "");
  EXPECT_EQ(did_you_mean(std::string(1000, 'm'), kOps), "");
}

}  // namespace
}  // namespace epifuse
