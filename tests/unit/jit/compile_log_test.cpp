// What is read out of ptxas's logs; the logs are NVRTC 13.0's own.
#include "jit/compile_log.h"

#include <gtest/gtest.h>

namespace epifuse::jit {
namespace {

using PointerArrays = std::vector<std::string>;

Binary read(std::string log) {
  Binary binary;
  binary.log = std::move(log);
  read_log(binary);
  return binary;
}

TEST(CompileLog, Good) {
  const Binary binary = read(R"(ptxas info    : 111 bytes gmem
ptxas info    : Compiling entry function 'gemm_k' for 'sm_90a'
ptxas info    : Function properties for gemm_k
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 16 barriers
ptxas info    : Compile time = 177.241 ms
)");
  EXPECT_EQ(binary.registers, 168);
  EXPECT_EQ(binary.spill_bytes, 0);
  EXPECT_EQ(binary.stack_bytes, 0);
  EXPECT_EQ(binary.problems, PointerArrays{});
}

TEST(CompileLog, Spills) {
  const Binary binary = read(R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'spills' for 'sm_90a'
ptxas info    : Function properties for spills
ptxas         .     264 bytes stack frame, 264 bytes spill stores, 416 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 264 bytes cumulative stack size
)");
  EXPECT_EQ(binary.registers, 32);
  EXPECT_EQ(binary.spill_bytes, 680);
  EXPECT_EQ(binary.stack_bytes, 264);
  EXPECT_EQ(binary.problems, PointerArrays{"spills 680 bytes"});
}

TEST(CompileLog, SerialisedWgmma) {
  const Binary binary = read(
      "ptxas info    : (C7517) warpgroup.wait is injected in around line 78 by compiler to allow "
      "use "
      "of registers defined by GMMA in function 'serialised'\n"
      "ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized due to non wgmma instructions reading accumulator registers of  a wgmma between "
      "start and end of the pipeline stage in the function 'serialised'\n"
      "ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized due to non wgmma instructions reading accumulator registers of  a wgmma between "
      "start and end of the pipeline stage in the function 'other'\n"
      "ptxas info    : Used 64 registers, used 0 barriers\n");
  EXPECT_EQ(binary.registers, 64);
  EXPECT_EQ(binary.problems,
            (PointerArrays{"wgmma made to wait (ptxas C7517)", "wgmma serialised (ptxas C7514)"}));
}

TEST(CompileLog, OtherCodesAreNoProblem) {
  for (const char* log : {"ptxas info    : (C7507) other\n", "ptxas info    : (C7519) other\n",
                          "ptxas info    : (C) (C75x8) (C", "", "\n\n"}) {
    EXPECT_EQ(read(log).problems, PointerArrays{}) << log;
  }
}

TEST(CompileLog, SeveralFunctions) {
  const Binary binary = read(
      "ptxas         .     16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 0 barriers\n"
      "ptxas         .     8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 20 registers, used 0 barriers");
  EXPECT_EQ(binary.registers, 40);
  EXPECT_EQ(binary.stack_bytes, 24);
  EXPECT_EQ(binary.spill_bytes, 12);
}

}  // namespace
}  // namespace epifuse::jit
