// Opening the CUDA driver where there is none; these run on machines without a GPU.
#include "jit/driver.h"

#include <gtest/gtest.h>

#include "environment.h"

namespace epifuse::jit {
namespace {

TEST(Driver, AbsentIsANullAndAReason) {
  const ScopedVariable hidden("EPIFUSE_CUDA_DRIVER", "/nowhere/libcuda.so.1");
  std::string why;
  EXPECT_EQ(Driver::open(&why), nullptr);
  EXPECT_NE(why.find("There is no CUDA driver"), std::string::npos) << why;
  EXPECT_NE(why.find("/nowhere/libcuda.so.1"), std::string::npos) << why;
  EXPECT_EQ(Driver::open(), nullptr);
}

TEST(Driver, ALibraryWithoutTheEntryPointsIsRefused) {
  const ScopedVariable other("EPIFUSE_CUDA_DRIVER", "libm.so.6");
  std::string why;
  EXPECT_EQ(Driver::open(&why), nullptr);
  EXPECT_NE(why.find("it lacks cuInit, cuDriverGetVersion"), std::string::npos) << why;
}

}  // namespace
}  // namespace epifuse::jit
