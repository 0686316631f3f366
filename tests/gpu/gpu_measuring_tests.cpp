// What it costs to measure kernels before their first run: time, and kernels that are compiled.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "backends/pointer_arrays.h"
#include "base/measure.h"
#include "compile/program_state.h"
#include "epifuse/epifuse.h"
#include "tests/unit/jit/environment.h"
#include "tune/store.h"

namespace epifuse {
namespace {

constexpr double kMostSeconds = 0.06;  // a kernel

class GpuMeasuring : public ::testing::Test {
 protected:
  GpuMeasuring() : cache_("EPIFUSE_CACHE", folder_.path().string()) {}

  static Program program(Tune tune) {
    CompileOptions options;
    options.tune = tune;
    return compile(Graph::parse("graph g(x: bf16[M, 1024], w: bf16[2048, 1024], b: bf16[2048]) {\n"
                                "  h = matmul x, w^T\n  t = add h, b\n  y = silu t\n"
                                "  return y\n}\n"),
                   Target::cuda(), options);
  }
  static void prepare(const Program& program, std::initializer_list<std::int64_t> rows) {
    const backends::Executable& executable = *program.state().executable;
    for (const std::int64_t m : rows) {
      executable.prepare_for(
          backends::bind_stand_ins(executable.plan(), {{"M", m}}, DeviceKind::cuda));
    }
  }
  // Of preparing three sizes.
  static double seconds_of(const Program& program) {
    const auto start = std::chrono::steady_clock::now();
    prepare(program, {500, 1000, 2000});
    return seconds_since(start);
  }
  std::size_t num_kept() const { return tune::TuneStore(folder_.path()).list().size(); }

  jit::TemporaryFolder folder_;
  jit::ScopedVariable cache_;
};

TEST_F(GpuMeasuring, AKernelTakes60MsAtMostAndNothingWhereTheChoiceIsKnown) {
  prepare(program(Tune::off), {250, 500, 1000, 2000});  // now in the cache: what these sizes run by
  const Program measured = program(Tune::compile);
  prepare(measured, {250});  // loads the vendor's library
  const std::int64_t num_compiled = measured.state().executable->num_compiled();
  EXPECT_LE(seconds_of(measured), 3 * kMostSeconds);
  EXPECT_EQ(measured.state().executable->num_compiled(), num_compiled);
  EXPECT_EQ(num_kept(), 4u);
  const Program chosen = program(Tune::off), known = program(Tune::compile);
  prepare(chosen, {250});
  prepare(known, {250});
  // Both load kernels from the cache; measuring three would take 100 ms or more.
  EXPECT_LE(seconds_of(known), 2 * seconds_of(chosen) + kMostSeconds / 4);
}

// Queries, keys and values: one launch beside each by itself.
TEST_F(GpuMeasuring, SeveralProductsOfOneOperandAreMeasuredTogether) {
  CompileOptions options;
  options.tune = Tune::compile;
  const Program program =
      compile(Graph::parse("graph g(x: bf16[M, 1024], a: bf16[2048, 1024], b: bf16[512, 1024], "
                           "c: bf16[512, 1024]) {\n  q = matmul x, a^T\n  k = matmul x, b^T\n"
                           "  v = matmul x, c^T\n  return q, k, v\n}\n"),
              Target::cuda(), options);
  prepare(program, {300});
  const auto kept = tune::TuneStore(folder_.path()).list();
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_TRUE(kept[0].tuned.choice.starts_with(tune::kSideBySide)) << kept[0].tuned.choice;
  EXPECT_NE(kept[0].tuned.measured.find(", one by one "), std::string::npos)
      << kept[0].tuned.measured;
  EXPECT_EQ(kept[0].description, "300x2048x1024 bf16 identity beside 512 512 columns");
}

TEST_F(GpuMeasuring, TheFirstUseCompilesTheBestOfItsSizesOnce) {
  const Program used = program(Tune::first_use);
  const auto num_compiled = [&] { return used.state().executable->num_compiled(); };
  const std::int64_t before = num_compiled();
  prepare(used, {500});
  EXPECT_GE(num_compiled(), before + 2) << "beside the kernel that the model chooses";
  const auto kept = tune::TuneStore(folder_.path()).list();
  ASSERT_EQ(kept.size(), 1u);
  const std::string &measured = kept.front().tuned.measured, best = "the best of ";
  const std::size_t at = measured.find(best);
  ASSERT_NE(at, std::string::npos) << measured;
  EXPECT_GE(std::stoi(measured.substr(at + best.size())), 5) << measured;
  const std::int64_t after = num_compiled();
  prepare(used, {500});
  EXPECT_EQ(num_compiled(), after);
}

// Neither is so much faster than the other: a product of nothing would be.
TEST_F(GpuMeasuring, WhatAFrameworkTakesIsMeasuredBesideTheKernel) {
  for (const char* k : {"1024", "1001"}) {
    std::string text =
        "graph g(x: bf16[M, K], w: bf16[2048, K], b: bf16[2048]) {\n"
        "  h = matmul x, w^T\n  t = add h, b\n  y = silu t\n  return y\n}\n";
    for (std::size_t at; (at = text.find('K')) != std::string::npos;) text.replace(at, 1, k);
    CompileOptions options;
    options.tune = Tune::full;
    prepare(compile(Graph::parse(text), Target::cuda(), options), {500});
  }
  const auto kept = tune::TuneStore(folder_.path()).list();
  ASSERT_EQ(kept.size(), 2u);
  for (const auto& each : kept) {
    EXPECT_GT(each.tuned.us, each.tuned.framework_us / 4) << each.tuned.measured;
    EXPECT_LT(each.tuned.us, each.tuned.framework_us * 4) << each.tuned.measured;
    EXPECT_GT(each.tuned.framework_us, 2) << each.tuned.measured;
    const bool is_padded = each.description.find("1001") != std::string::npos;
    EXPECT_EQ(each.tuned.padded_us > 2, is_padded) << each.tuned.measured;
  }
}

TEST_F(GpuMeasuring, SoIsItsProductOfEightBitsWithScalesOfRows) {
  CompileOptions options;
  options.tune = Tune::full;
  const Graph graph = Graph::parse(
      "graph g(x: e4m3[M, 1024], w: e4m3[2048, 1024], s: f32[M, 1], t: f32[1, 2048]) {\n"
      "  h = matmul x, w^T\n  u = mul h, s\n  v = mul u, t\n  a = silu v\n"
      "  y = cast a -> bf16\n  return y\n}\n");
  prepare(compile(graph, Target::cuda(), options), {500});
  const auto kept = tune::TuneStore(folder_.path()).list();
  ASSERT_EQ(kept.size(), 1u);
  const tune::Tuned& tuned = kept.front().tuned;
  EXPECT_GT(tuned.us, tuned.framework_us / 4) << tuned.measured;
  EXPECT_LT(tuned.us, tuned.framework_us * 4) << tuned.measured;
  EXPECT_GT(tuned.framework_us, 2) << tuned.measured;
}

}  // namespace
}  // namespace epifuse
