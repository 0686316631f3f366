// Which oneDNN the CPU backend accepts.
#include <gtest/gtest.h>

#include <string>

#include "backends/cpu/matmul.h"
#include "epifuse/error.h"

namespace epifuse::cpu {
namespace {

TEST(CpuOnednnVersion, TakesTheOneThatIsLoaded) { EXPECT_NO_THROW(MatmulCache()); }

TEST(CpuOnednnVersion, RefusesOlderOnesAndAnotherInterface) {
  if (DNNL_VERSION_MAJOR != 2) GTEST_SKIP() << "built for another interface";
  EXPECT_NO_THROW(require_onednn(2, 6));
  EXPECT_NO_THROW(require_onednn(2, 7));
  EXPECT_THROW(require_onednn(1, 8), UnavailableError);
  EXPECT_THROW(require_onednn(3, 2), UnavailableError);
  try {
    require_onednn(2, 5);
    ADD_FAILURE() << "2.5 was taken";
  } catch (const UnavailableError& error) {
    EXPECT_EQ(std::string(error.what()), "expected oneDNN 2.6 or a newer 2.x, loaded 2.5");
  }
}

TEST(CpuOnednnVersion, OfTheThirdInterfaceRefusesOthers) {
  if (DNNL_VERSION_MAJOR != 3) GTEST_SKIP() << "built for another interface";
  EXPECT_NO_THROW(require_onednn(3, 0));
  EXPECT_NO_THROW(require_onednn(3, 7));
  EXPECT_THROW(require_onednn(4, 0), UnavailableError);
  try {
    require_onednn(2, 7);
    ADD_FAILURE() << "2.7 was taken";
  } catch (const UnavailableError& error) {
    EXPECT_EQ(std::string(error.what()), "expected oneDNN 3.0 or a newer 3.x, loaded 2.7");
  }
}

}  // namespace
}  // namespace epifuse::cpu
