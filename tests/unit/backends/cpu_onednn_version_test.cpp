// Which oneDNN the CPU backend accepts.
#include <gtest/gtest.h>

#include <string>

#include "backends/cpu/matmul.h"
#include "epifuse/error.h"

namespace epifuse::cpu {
namespace {

TEST(CpuOnednnVersion, TakesTheOneThatIsLoaded) { EXPECT_NO_THROW(MatmulCache()); }

TEST(CpuOnednnVersion, RefusesOlderOnesAndAnotherInterface) {
  constexpr int kMajor = DNNL_VERSION_MAJOR;
  EXPECT_NO_THROW(require_onednn(kMajor, 6));
  EXPECT_NO_THROW(require_onednn(kMajor, 7));
  EXPECT_THROW(require_onednn(kMajor - 1, 8), UnavailableError);
  EXPECT_THROW(require_onednn(kMajor + 1, 2), UnavailableError);
  try {
    require_onednn(1, 8);
    ADD_FAILURE() << "1.8 was taken";
  } catch (const UnavailableError& error) {
    EXPECT_EQ(std::string(error.what()), kMajor == 2
                                             ? "expected oneDNN 2.6 or a newer 2.x, loaded 1.8"
                                             : "expected oneDNN 3.0 or a newer 3.x, loaded 1.8");
  }
}

TEST(CpuOnednnVersion, RefusesTheInterfaceOfTwoBefore26) {
  if (DNNL_VERSION_MAJOR != 2) GTEST_SKIP() << "built for another interface";
  EXPECT_THROW(require_onednn(2, 5), UnavailableError);
}

}  // namespace
}  // namespace epifuse::cpu
