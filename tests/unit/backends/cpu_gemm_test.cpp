// Matrix products on the CPU backend: odd shapes, layouts, dtypes, batches, against double.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "backends/cpu/strips.h"
#include "tests/unit/backends/cpu_harness.h"

namespace epifuse::cpu {
namespace {

struct Sizes3 {
  std::int64_t m, n, k;
};
constexpr Sizes3 kOddSizes[] = {{1, 1, 1},    {1, 130, 77},    {3, 5, 0},      {17, 127, 33},
                                {0, 8, 4},    {8, 0, 4},       {127, 257, 65}, {66, 300, 129},
                                {700, 40, 9}, {1300, 129, 16}, {58, 75, 301},  {400, 200, 71}};

std::string text(const std::string& a, const std::string& b, const std::string& product,
                 const std::string& dtype) {
  return "graph g(a: " + dtype + a + ", b: " + dtype + b + ", r: " + dtype + "[M, N], c: " + dtype +
         "[N]) {\n  h = matmul " + product +
         "\n  t = add h, c\n  u = relu t\n  y = add u, r\n  return y\n}";
}

// A plain triple loop in double, then the epilogue; independent of the reference backend.
double expected(const HostTensor& a, const HostTensor& b, bool ta, bool tb, const HostTensor& c,
                const HostTensor& r, const Sizes3& s, std::int64_t m, std::int64_t n,
                double* magnitude) {
  double sum = 0;
  *magnitude = 0;
  for (std::int64_t k = 0; k < s.k; ++k) {
    const double x = a.get(ta ? k * s.m + m : m * s.k + k);
    const double y = b.get(tb ? n * s.k + k : k * s.n + n);
    sum += x * y;
    *magnitude += std::abs(x * y);
  }
  return std::max(sum + c.get(n), 0.0) + r.get(m * s.n + n);
}

void check_layout(DType dtype, bool ta, bool tb, const CompileOptions& options) {
  const std::string d(name(dtype));
  const CpuProgram program(text(ta ? "[K, M]" : "[M, K]", tb ? "[N, K]" : "[K, N]",
                                std::string(ta ? "a^T" : "a") + (tb ? ", b^T" : ", b"), d),
                           options);
  for (const Sizes3& s : kOddSizes) {
    using Shape = std::vector<std::int64_t>;
    HostTensor a = random_tensor(dtype, ta ? Shape{s.k, s.m} : Shape{s.m, s.k}, 1);
    HostTensor b = random_tensor(dtype, tb ? Shape{s.n, s.k} : Shape{s.k, s.n}, 2);
    HostTensor c = random_tensor(dtype, {s.n}, 3), r = random_tensor(dtype, {s.m, s.n}, 4);
    HostTensor y(dtype, {s.m, s.n});
    program.run({a.bind("a"), b.bind("b"), c.bind("c"), r.bind("r"), y.bind("y")});
    for (std::int64_t m = 0; m < s.m; ++m) {
      for (std::int64_t n = 0; n < s.n; ++n) {
        double magnitude = 0;
        const double value = expected(a, b, ta, tb, c, r, s, m, n, &magnitude);
        // Unfused chains round three intermediate values as well.
        const double allowed =
            0x1p-22 * (magnitude + 4) + 4 * ulp(std::abs(value) + magnitude + 4, dtype);
        ASSERT_NEAR(y.get(m * s.n + n), value, allowed)
            << d << (ta ? " a^T" : "") << (tb ? " b^T" : "") << ' ' << s.m << 'x' << s.n << 'x'
            << s.k << " at " << m << ", " << n;
      }
    }
  }
}

TEST(CpuGemm, OddSizesOfEveryLayoutAndDtype) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) check_layout(dtype, ta, tb, {});
    }
  }
}

TEST(CpuGemm, UnfusedChain) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    check_layout(dtype, false, true, {Numerics::fast, false});
    check_layout(dtype, true, false, {Numerics::fast, false});
  }
}

TEST(CpuGemm, NarrowDtypesAndPaddedStrides) {
  const CpuProgram half(
      "graph g(a: f16[M, K], b: e4m3[N, K], s: f32[M, 1]) {\n  w = cast b -> f16\n"
      "  h = matmul a, w^T -> f32\n  y = mul h, s\n  return y\n}");
  HostTensor a = random_tensor(DType::f16, {37, 50}, 1, {64, 1});
  HostTensor b = random_tensor(DType::e4m3, {70, 50}, 2, {55, 1});
  HostTensor s = random_tensor(DType::f32, {37, 1}, 3), y(DType::f32, {37, 70}, {80, 1});
  half.run_and_verify({a.bind("a"), b.bind("b"), s.bind("s"), y.bind("y")});

  const CpuProgram padded(
      "graph g(a: bf16[M, K], b: bf16[K, N], r: bf16[M, N]) {\n"
      "  h = matmul a, b\n  y = add h, r\n  return y\n}");
  for (const std::int64_t m : {5, 150}) {
    HostTensor pa = random_tensor(DType::bf16, {m, 70}, 1, {80, 1});
    HostTensor pb = random_tensor(DType::bf16, {70, 200}, 2, {210, 1});
    HostTensor pr = random_tensor(DType::bf16, {m, 200}, 3, {201, 1});
    HostTensor py(DType::bf16, {m, 200}, {220, 1});
    padded.run_and_verify({pa.bind("a"), pb.bind("b"), pr.bind("r"), py.bind("y")});
    for (std::size_t i = 200 * 2; i < 220 * 2; ++i) {
      ASSERT_EQ(py.bytes()[i], 0xff) << "what lies between the rows is not touched";
    }
  }
}

TEST(CpuGemm, BatchesSharedAndOwnWeights) {
  const CpuProgram shared(
      "graph g(a: bf16[B, S, K], b: bf16[N, K], r: bf16[B, S, N], c: bf16[B, 1, N]) {\n"
      "  h = matmul a, b^T\n  t = add h, c\n  y = mul t, r\n  return y\n}");
  HostTensor a = random_tensor(DType::bf16, {3, 19, 40}, 1),
             b = random_tensor(DType::bf16, {33, 40}, 2);
  HostTensor r = random_tensor(DType::bf16, {3, 19, 33}, 3, {19 * 50, 50, 1});
  HostTensor c = random_tensor(DType::bf16, {3, 1, 33}, 4), y(DType::bf16, {3, 19, 33});
  shared.run_and_verify({a.bind("a"), b.bind("b"), r.bind("r"), c.bind("c"), y.bind("y")});

  const CpuProgram own(
      "graph g(a: f32[B, H, S, K], b: f32[B, 1, K, N], s: f32[B, H, 1, 1]) {\n"
      "  w = broadcast b [B, H, K, N]\n  h = matmul a, w\n  y = mul h, s\n  return y\n}");
  HostTensor oa = random_tensor(DType::f32, {2, 3, 20, 30}, 5);
  HostTensor ob = random_tensor(DType::f32, {2, 1, 30, 70}, 6);
  HostTensor os = random_tensor(DType::f32, {2, 3, 1, 1}, 7), oy(DType::f32, {2, 3, 20, 70});
  own.run_and_verify({oa.bind("a"), ob.bind("b"), os.bind("s"), oy.bind("y")});
}

// Tiles follow the number of threads; none of the ways a product is computed shows it in float32.
// In bf16 it may: with AMX, oneDNN sums in pieces of k that it picks for the tile, and with AVX2 it
// does so in float32 (seen on an AMD EPYC with oneDNN 2.6.3).
TEST(CpuGemm, Float32ElementsHaveTheSameBitsForAnyNumberOfThreads) {
  if (best_strips().name != std::string("avx512")) GTEST_SKIP() << "of AVX-512 only";
  for (const bool tb : {false, true}) {
    const CpuProgram program(
        text("[M, K]", tb ? "[N, K]" : "[K, N]", tb ? "a, b^T" : "a, b", "f32"));
    for (const Sizes3& s : {Sizes3{7, 900, 333}, Sizes3{128, 900, 1000}, Sizes3{197, 500, 65},
                            Sizes3{900, 700, 301}, Sizes3{450, 130, 9000}}) {
      using Shape = std::vector<std::int64_t>;
      HostTensor a = random_tensor(DType::f32, {s.m, s.k}, 1);
      HostTensor b = random_tensor(DType::f32, tb ? Shape{s.n, s.k} : Shape{s.k, s.n}, 2);
      HostTensor c = random_tensor(DType::f32, {s.n}, 3);
      HostTensor r = random_tensor(DType::f32, {s.m, s.n}, 4);
      std::vector<std::vector<unsigned char>> results;
      for (const char* num_threads : {"1", "3", "16"}) {
        setenv("EPIFUSE_THREADS", num_threads, 1);
        HostTensor y(DType::f32, {s.m, s.n});
        program.run({a.bind("a"), b.bind("b"), c.bind("c"), r.bind("r"), y.bind("y")});
        results.push_back(y.bytes());
      }
      EXPECT_TRUE(results[0] == results[1]) << tb << ' ' << s.m;
      EXPECT_TRUE(results[0] == results[2]) << tb << ' ' << s.m;
    }
  }
  unsetenv("EPIFUSE_THREADS");
}

// Reductions taken from the tiles of a product: make_plan gives them steps of their own, so the
// plan is put together here.
CpuProgram program_with_reductions() {
  const std::string source =
      "graph g(a: f32[B, M, K], b: f32[K, N]) {\n"
      "  h = matmul a, b\n  g = silu h\n  rs = row_sum g\n  cm = col_max g\n"
      "  cs = col_sum g\n  rm = row_max g\n  return g, rs, cm, cs, rm\n}";
  plan::Plan plan = plan::make_plan(ir::parse(source), {});
  plan::FusedGemm gemm = std::get<plan::FusedGemm>(plan.steps.at(0));
  const plan::Slot source_slot = gemm.epilogue.stores.at(0).source;
  for (std::size_t i = 1; i < plan.steps.size(); ++i) {
    for (plan::Store store : plan.epilogue(i).stores) {
      store.source = source_slot;
      gemm.epilogue.stores.push_back(store);
    }
  }
  plan.steps = {gemm};
  return CpuProgram(source, plan);
}

TEST(CpuGemm, ReductionsBesideTheTile) {
  const CpuProgram program = program_with_reductions();
  ASSERT_EQ(program.plan().epilogue(0).stores.size(), 5u);
  for (const Sizes3& s : {Sizes3{150, 300, 20}, Sizes3{1, 7, 0}, Sizes3{700, 17, 4},
                          Sizes3{0, 4, 4}, Sizes3{5, 0, 4}}) {
    HostTensor a = random_tensor(DType::f32, {2, s.m, s.k}, 1);
    HostTensor b = random_tensor(DType::f32, {s.k, s.n}, 2), g(DType::f32, {2, s.m, s.n});
    HostTensor rs(DType::f32, {2, s.m, 1}), rm(DType::f32, {2, s.m, 1});
    HostTensor cm(DType::f32, {2, 1, s.n}), cs(DType::f32, {2, 1, s.n});
    program.run_and_verify({a.bind("a"), b.bind("b"), g.bind("g"), rs.bind("rs"), rm.bind("rm"),
                            cm.bind("cm"), cs.bind("cs")});
  }
}

TEST(CpuGemm, ReductionsHaveTheSameBitsForAnyNumberOfThreads) {
  const CpuProgram program = program_with_reductions();
  HostTensor a = random_tensor(DType::f32, {2, 700, 20}, 1);
  HostTensor b = random_tensor(DType::f32, {20, 300}, 2);
  std::vector<std::vector<unsigned char>> results;
  for (const char* num_threads : {"1", "3", "6"}) {
    setenv("EPIFUSE_THREADS", num_threads, 1);
    HostTensor g(DType::f32, {2, 700, 300}), rs(DType::f32, {2, 700, 1}),
        rm(DType::f32, {2, 700, 1});
    HostTensor cm(DType::f32, {2, 1, 300}), cs(DType::f32, {2, 1, 300});
    program.run({a.bind("a"), b.bind("b"), g.bind("g"), rs.bind("rs"), rm.bind("rm"), cm.bind("cm"),
                 cs.bind("cs")});
    std::vector<unsigned char> all;
    for (const HostTensor* tensor : {&g, &rs, &rm, &cm, &cs}) {
      all.insert(all.end(), tensor->bytes().begin(), tensor->bytes().end());
    }
    results.push_back(std::move(all));
  }
  unsetenv("EPIFUSE_THREADS");
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace epifuse::cpu
