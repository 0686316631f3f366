// Tails, determinism and concurrency of the CPU backend.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <thread>

#include "tests/unit/backends/cpu_harness.h"

namespace epifuse::cpu {
namespace {

class NumThreads {
 public:
  explicit NumThreads(const char* count) { setenv("EPIFUSE_THREADS", count, 1); }
  ~NumThreads() { unsetenv("EPIFUSE_THREADS"); }
};

constexpr char kReducing[] =
    "graph g(a: bf16[M, K], b: bf16[N, K], c: bf16[N], r: bf16[M, N]) {\n"
    "  h = matmul a, b^T\n  t = add h, c\n  u = gelu_erf t\n  y = add u, r\n"
    "  s = row_sum y\n  z = col_sum y\n  return y, s, z\n}";

struct Tensors {
  HostTensor a, b, c, r, y, s, z;
  Tensors(std::int64_t m, std::int64_t n, std::int64_t k)
      : a(random_tensor(DType::bf16, {m, k}, 1)),
        b(random_tensor(DType::bf16, {n, k}, 2)),
        c(random_tensor(DType::bf16, {n}, 3)),
        r(random_tensor(DType::bf16, {m, n}, 4)),
        y(DType::bf16, {m, n}),
        s(DType::bf16, {m, 1}),
        z(DType::bf16, {1, n}) {}
  std::vector<Binding> bindings() {
    return {a.bind("a"), b.bind("b"), c.bind("c"), r.bind("r"),
            y.bind("y"), s.bind("s"), z.bind("z")};
  }
};

TEST(CpuRun, SameBitsForAnyNumberOfThreads) {
  for (const bool fuse : {true, false}) {
    const CpuProgram program(kReducing, {Numerics::fast, fuse});
    Tensors one(700, 333, 65), many(700, 333, 65);
    {
      const NumThreads threads("1");
      program.run(one.bindings());
    }
    {
      const NumThreads threads("5");
      program.run(many.bindings());
    }
    EXPECT_EQ(one.s.bytes(), many.s.bytes());
    EXPECT_EQ(one.z.bytes(), many.z.bytes());
    if (fuse) {
      EXPECT_EQ(one.y.bytes(), many.y.bytes());
    }
  }
}

TEST(CpuRun, ManyThreadsShareOneProgram) {
  const CpuProgram program(kReducing);
  Tensors alone(150, 260, 48);
  program.run_and_verify(alone.bindings());
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<Tensors>> tensors;
  for (int i = 0; i < 6; ++i) tensors.push_back(std::make_unique<Tensors>(150, 260, 48));
  for (const auto& own : tensors) {
    threads.emplace_back([&program, &own] {
      for (int repeat = 0; repeat < 20; ++repeat) program.run(own->bindings());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& own : tensors) {
    EXPECT_EQ(own->y.bytes(), alone.y.bytes());
    EXPECT_EQ(own->s.bytes(), alone.s.bytes());
  }
}

TEST(CpuRun, ExactKeepsEveryRounding) {
  const CpuProgram program(kReducing, {Numerics::exact, true});
  Tensors tensors(65, 130, 40);
  program.run_and_verify(tensors.bindings());
}

TEST(CpuRun, TailsOfEveryRankAndStride) {
  const CpuProgram scalars(
      "graph g(x: f32[], alpha: scalar) {\n  t = mul x, alpha\n  y = add t, 1.5\n  return y\n}");
  HostTensor x(DType::f32, {}), y(DType::f32, {});
  x.fill({3});
  scalars.run({x.bind("x"), Binding("alpha", 0.5), y.bind("y")});
  EXPECT_EQ(y.get(0), 3.0);

  const CpuProgram mixed(
      "graph g(x: f16[A, B, C, D], u: f16[C, 1], v: f16[D], w: f16[A, 1, 1, D]) {\n"
      "  p = mul x, u\n  q = add p, v\n  t = max q, w\n  k = lt t, x\n  y = select k, t, x\n"
      "  return y, k\n}");
  HostTensor mx = random_tensor(DType::f16, {2, 3, 5, 40}, 1, {1000, 300, 50, 1});
  HostTensor mu = random_tensor(DType::f16, {5, 1}, 2), mv = random_tensor(DType::f16, {40}, 3);
  HostTensor mw = random_tensor(DType::f16, {2, 1, 1, 40}, 4), my(DType::f16, {2, 3, 5, 40});
  HostTensor mk(DType::boolean, {2, 3, 5, 40});
  mixed.run_and_verify(
      {mx.bind("x"), mu.bind("u"), mv.bind("v"), mw.bind("w"), my.bind("y"), mk.bind("k")});
}

TEST(CpuRun, ViewsOfInputsAndLongRows) {
  const CpuProgram views(
      "graph g(x: f32[M, N], v: f32[N]) {\n  t = transpose x\n  u = reshape v [N, 1]\n"
      "  s = mul t, u\n  m = row_max s\n  c = col_sum s\n  return s, m, c\n}");
  HostTensor x = random_tensor(DType::f32, {130, 70}, 1), v = random_tensor(DType::f32, {70}, 2);
  HostTensor s(DType::f32, {70, 130}), m(DType::f32, {70, 1}), c(DType::f32, {1, 130});
  views.run_and_verify({x.bind("x"), v.bind("v"), s.bind("s"), m.bind("m"), c.bind("c")});

  const CpuProgram long_row(
      "graph g(x: f32[M, N], b: f32[N]) {\n  y = mul x, b\n  s = row_sum y\n  return y, s\n}");
  HostTensor lx = random_tensor(DType::f32, {2, 100001}, 3),
             lb = random_tensor(DType::f32, {100001}, 4);
  HostTensor ly(DType::f32, {2, 100001}), ls(DType::f32, {2, 1});
  long_row.run_and_verify({lx.bind("x"), lb.bind("b"), ly.bind("y"), ls.bind("s")});
}

TEST(CpuRun, EmptyReductions) {
  const CpuProgram program(
      "graph g(x: f32[M, N]) {\n  a = row_sum x\n  b = row_max x\n  c = col_sum x\n"
      "  d = col_max x\n  return a, b, c, d\n}");
  constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
  HostTensor x(DType::f32, {3, 0}), a(DType::f32, {3, 1}), b(DType::f32, {3, 1});
  HostTensor c(DType::f32, {1, 0}), d(DType::f32, {1, 0});
  program.run({x.bind("x"), a.bind("a"), b.bind("b"), c.bind("c"), d.bind("d")});
  EXPECT_EQ(a.values(), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(b.values(), (std::vector<double>(3, kMinusInfinity)));
  HostTensor tall(DType::f32, {0, 2}), e(DType::f32, {0, 1}), f(DType::f32, {0, 1});
  HostTensor g(DType::f32, {1, 2}), h(DType::f32, {1, 2});
  program.run({tall.bind("x"), e.bind("a"), f.bind("b"), g.bind("c"), h.bind("d")});
  EXPECT_EQ(g.values(), (std::vector<double>{0, 0}));
  EXPECT_EQ(h.values(), (std::vector<double>(2, kMinusInfinity)));
}

TEST(CpuRun, ReportsOneLineForEachStep) {
  const CpuProgram program(kReducing, {Numerics::fast, false});
  const auto reports = program.executable().report();
  ASSERT_EQ(reports.size(), program.plan().steps.size());
  EXPECT_NE(reports[0].how.find("oneDNN"), std::string::npos);
  EXPECT_TRUE(program.executable().sources().empty());
}

}  // namespace
}  // namespace epifuse::cpu
