// When kernels are measured: what was asked for goes before the environment.
#include "base/tune_mode.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "epifuse/error.h"

namespace epifuse {
namespace {

class TuneMode : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv("EPIFUSE_TUNE"); }
};

TEST_F(TuneMode, EachHasAWord) {
  for (const char* word : {"off", "compile", "first-use", "full"}) {
    ASSERT_TRUE(find_tune(word)) << word;
    EXPECT_EQ(name(*find_tune(word)), word);
  }
  EXPECT_FALSE(find_tune("first_use"));
  EXPECT_FALSE(find_tune(""));
}

TEST_F(TuneMode, IsWhatWasAskedForThenTheSettingThenOff) {
  unsetenv("EPIFUSE_TUNE");
  EXPECT_EQ(tune_mode(std::nullopt), Tune::off);
  setenv("EPIFUSE_TUNE", "first-use", 1);
  EXPECT_EQ(tune_mode(std::nullopt), Tune::first_use);
  EXPECT_EQ(tune_mode(Tune::compile), Tune::compile);
}

TEST_F(TuneMode, AnotherWordInTheSettingIsRefusedByName) {
  setenv("EPIFUSE_TUNE", "always", 1);
  try {
    tune_mode(std::nullopt);
    FAIL() << "expected an ArgumentError";
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(),
                 "EPIFUSE_TUNE: expected off, compile, first-use or full, got 'always'");
  }
  EXPECT_EQ(tune_mode(Tune::off), Tune::off);
}

}  // namespace
}  // namespace epifuse
