// NVRTC: finding it, what it compiles, what it refuses; the embedded headers.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/settings.h"
#include "environment.h"
#include "epifuse/error.h"
#include "jit/nvrtc_places.h"

namespace epifuse::jit {
namespace {

std::shared_ptr<const Nvrtc> opened() {
  std::vector<std::string> looked_in;
  std::shared_ptr<const Nvrtc> nvrtc = Nvrtc::open(&looked_in);
  EXPECT_NE(nvrtc, nullptr) << ::testing::PrintToString(looked_in);
  return nvrtc;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST(NvrtcPlaces, TheSettingIsTheOnlyPlace) {
  Settings settings;
  settings.nvrtc = "/nowhere/libnvrtc.so";
  std::vector<std::string> looked_in;
  EXPECT_EQ(nvrtc_places(settings, &looked_in), std::vector<std::string>{"/nowhere/libnvrtc.so"});
  EXPECT_EQ(looked_in, std::vector<std::string>{"/nowhere/libnvrtc.so (EPIFUSE_NVRTC)"});
}

TEST(NvrtcPlaces, FindsThePackageOfAVirtualEnvironment) {
  const TemporaryFolder folder;
  const std::filesystem::path packages = folder.path() / "lib/python3.11/site-packages/nvidia";
  std::filesystem::create_directories(packages / "cu13/lib");
  std::filesystem::create_directories(packages / "cuda_nvrtc/lib");
  write_text(packages / "cu13/lib/libnvrtc.so.13", "");
  write_text(packages / "cuda_nvrtc/lib/libnvrtc.so.12", "");
  write_text(packages / "cu13/lib/libnvrtc-builtins.so.13.0", "");

  Settings settings;
  settings.virtual_env = folder.path();
  std::vector<std::string> looked_in;
  const std::vector<std::string> places = nvrtc_places(settings, &looked_in);
  const auto at = [&](const std::string& place) {
    return std::find(places.begin(), places.end(), place) - places.begin();
  };
  const auto newer = at(packages / "cu13/lib/libnvrtc.so.13");
  const auto older = at(packages / "cuda_nvrtc/lib/libnvrtc.so.12");
  EXPECT_LT(at("libnvrtc.so.13"), newer);
  EXPECT_LT(newer, older);
  EXPECT_LT(older, std::ssize(places));
  for (const char* place : {"libnvrtc.so.13 (the loader's path)", "/usr/local/cuda*/lib64"}) {
    EXPECT_NE(joined(looked_in).find(place), std::string::npos) << place;
  }
}

TEST(Nvrtc, SaysWhereItLookedAndWhatWasWrongThere) {
  const TemporaryFolder folder;
  {
    const ScopedVariable hidden("EPIFUSE_NVRTC", "/nowhere/libnvrtc.so");
    std::vector<std::string> looked_in;
    EXPECT_EQ(Nvrtc::open(&looked_in), nullptr);
    EXPECT_NE(joined(looked_in).find("/nowhere/libnvrtc.so (EPIFUSE_NVRTC)"), std::string::npos);
    EXPECT_NE(joined(looked_in).find("No such file"), std::string::npos) << joined(looked_in);
  }
  write_text(folder.path() / "libnvrtc.so", "not a library");
  const ScopedVariable broken("EPIFUSE_NVRTC", folder.path() / "libnvrtc.so");
  std::vector<std::string> looked_in;
  EXPECT_EQ(Nvrtc::open(&looked_in), nullptr);
  EXPECT_NE(joined(looked_in).find("file too short"), std::string::npos) << joined(looked_in);

  const ScopedVariable other("EPIFUSE_NVRTC", "libm.so.6");
  EXPECT_EQ(Nvrtc::open(), nullptr);
}

TEST(Nvrtc, KnowsItself) {
  const auto nvrtc = opened();
  ASSERT_NE(nvrtc, nullptr);
  EXPECT_TRUE(std::filesystem::exists(nvrtc->path()));
  const std::string expected = "nvrtc " + nvrtc->version() + " V" + nvrtc->version();
  EXPECT_EQ(nvrtc->toolchain().substr(0, expected.size()), expected);
}

TEST(Nvrtc, CompilesToACubin) {
  const auto nvrtc = opened();
  const Binary binary = nvrtc->compile(small_source("2.0f"));
  ASSERT_GT(binary.cubin.size(), 4u);
  EXPECT_EQ(std::string(binary.cubin.data() + 1, 3), "ELF");
  EXPECT_GT(binary.registers, 0);
  EXPECT_GT(binary.compile_seconds, 0);
  EXPECT_NE(binary.log.find("Compiling entry function 'scale'"), std::string::npos);
  EXPECT_TRUE(binary.problems.empty());
}

TEST(Nvrtc, RefusalCarriesSourceAndLog) {
  codegen::KernelSource source = small_source("2.0f");
  source.text += "extern \"C\" __global__ void broken() { missing_name = 1; }\n";
  try {
    opened()->compile(source);
    FAIL() << "no exception";
  } catch (const CompileError& error) {
    EXPECT_EQ(error.source, source.text);
    EXPECT_NE(error.log.find("\"missing_name\" is undefined"), std::string::npos) << error.log;
    const std::string what = error.what();
    EXPECT_NE(what.find("kernel scale"), std::string::npos) << what;
    EXPECT_NE(what.find("\"missing_name\" is undefined"), std::string::npos) << what;
  }
  source.arch = "sm_1";
  EXPECT_THROW(opened()->compile(source), CompileError);
}

TEST(Nvrtc, SpillsAreAProblem) {
  const codegen::KernelSource source{"spills", R"(
extern "C" __global__ void __launch_bounds__(1024, 2) spills(const float* x, float* y) {
  float v[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) v[i] = x[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; ++i) y[i * 1024 + threadIdx.x] = v[63 - i] * v[(i * 7) % 64];
}
)",
                                     "sm_90a"};
  const Binary binary = opened()->compile(source);
  ASSERT_GT(binary.spill_bytes, 0);
  EXPECT_EQ(binary.problems,
            std::vector<std::string>{"spills " + std::to_string(binary.spill_bytes) + " bytes"});
}

TEST(Nvrtc, SerialisedProductsAreAProblem) {
  std::string text = R"(#include <epifuse/wgmma_64x64x16_bf16.hpp>
using cute::SM90::GMMA::Major;
extern "C" __global__ void serialised(float* out, uint64_t a, uint64_t b) {
  float d[32] = {};
  for (int i = 0; i < 4; ++i) {
    cute::warpgroup_arrive();
    cute::SM90::GMMA::MMA_64x64x16_F32BF16BF16_SS<Major::K, Major::K>::fma(a, b)";
  for (int i = 0; i < 32; ++i) text += ", d[" + std::to_string(i) + "]";
  text += R"();
    cute::warpgroup_commit_batch();
    for (float& x : d) x += 1;  // while the product still writes to it
    cute::warpgroup_wait<0>();
  }
  for (int i = 0; i < 32; ++i) out[threadIdx.x * 32 + i] = d[i];
}
)";
  const Binary binary = opened()->compile({"serialised", text, "sm_90a"});
  const bool reported =
      std::any_of(binary.problems.begin(), binary.problems.end(), [](const std::string& problem) {
        return problem.starts_with("wgmma serialised (ptxas C75");
      });
  EXPECT_TRUE(reported) << binary.log;
}

// Each alone and all together: no header leans on what another one happened to include.
TEST(EmbeddedHeaders, EachCompilesAlone) {
  const auto nvrtc = opened();
  std::string all;
  for (const Header& header : embedded_headers()) {
    if (header.name.starts_with("kernels/")) continue;  // their compile test is the rtc tier
    const std::string include = "#include <" + std::string(header.name) + ">\n";
    const std::string kernel = "extern \"C\" __global__ void empty() {}\n";
    EXPECT_NO_THROW(nvrtc->compile({"empty", include + kernel, "sm_90a"})) << header.name;
    all = include + all;
  }
  EXPECT_NO_THROW(nvrtc->compile({"empty", all + "__global__ void empty() {}\n", "sm_90a"}));
}

TEST(EmbeddedHeaders, SlicesKeepTheirNotice) {
  int num_slices = 0;
  for (const Header& header : embedded_headers()) {
    if (!header.name.starts_with("epifuse/wgmma")) continue;
    ++num_slices;
    EXPECT_TRUE(header.text.starts_with("/****")) << header.name;
    EXPECT_NE(header.text.find("Redistributions of source code must retain"), header.text.npos)
        << header.name;
  }
  EXPECT_GE(num_slices, 3);
}

}  // namespace
}  // namespace epifuse::jit
