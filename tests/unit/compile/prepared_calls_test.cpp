// Calls of one form with tensors that move.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "compile/program_state.h"
#include "epifuse/epifuse.h"

namespace epifuse {
namespace {

// Of a CPU: two steps with a temporary between them, an operand of views, a scalar.
constexpr const char* kTwoProducts =
    "graph g(x: f32[M, K], w: f32[K, K], r: f32[M, K], alpha: scalar) {\n"
    "  h = matmul x, w\n  a = mul h, alpha\n  s = relu a\n  t = matmul s, w\n  y = add t, r\n"
    "  return y\n}";
constexpr std::int64_t kM = 7, kK = 12;

// A call's tensors, at `offset` floats from where they are allocated.
struct Call {
  explicit Call(float seed, std::size_t offset = 0) : start(offset) {
    for (std::vector<float>* tensor : {&x, &w, &r, &y}) {
      tensor->resize(start + static_cast<std::size_t>(tensor == &w ? kK * kK : kM * kK));
      for (std::size_t i = start; i < tensor->size(); ++i) {
        const auto k = static_cast<float>((i - start) % 17);
        (*tensor)[i] = tensor == &y ? -1.0F : seed + k / 16;
      }
    }
  }
  TensorView view(std::vector<float>& tensor, std::int64_t rows) const {
    return {tensor.data() + start, DType::f32, {rows, kK}};
  }
  std::vector<Binding> bindings(double alpha) {
    return {{"x", view(x, kM)},
            {"w", view(w, kK)},
            {"r", view(r, kM)},
            {"alpha", alpha},
            {"y", view(y, kM)}};
  }
  std::vector<float> result() const {
    return {y.begin() + static_cast<std::ptrdiff_t>(start), y.end()};
  }
  std::size_t start;
  std::vector<float> x, w, r, y;
};

Program program() { return compile(Graph::parse(kTwoProducts), Target::cpu()); }

std::vector<float> alone(float seed, double alpha) {
  Call call(seed);
  program().run(call.bindings(alpha));
  return call.result();
}

std::string error_of(const Program& program, const std::vector<Binding>& tensors) {
  try {
    program.run(tensors);
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "";
}

// Of equal remainders there are at most 64, as floats lie on multiples of 4.
TEST(PreparedCalls, TensorsThatMoveGiveTheirOwnResults) {
  const Program shared = program();
  for (int i = 0; i < 200; ++i) {
    const auto seed = static_cast<float>(i % 5);
    Call call(seed, static_cast<std::size_t>(i % 3));
    shared.run(call.bindings(0.5));
    ASSERT_EQ(call.result(), alone(seed, 0.5)) << i;
  }
  EXPECT_LE(shared.state().recent.size(), 200u);
}

TEST(PreparedCalls, AScalarIsOfTheCallNotOfTheForm) {
  const Program shared = program();
  Call call(1);
  for (const double alpha : {0.5, -2.0, 3.0}) {
    shared.run(call.bindings(alpha));
    EXPECT_EQ(call.result(), alone(1, alpha)) << alpha;
  }
  EXPECT_EQ(shared.state().recent.size(), 1u);
}

TEST(PreparedCalls, AnOverlapIsRefusedAfterAGoodCallOfTheSameForm) {
  const Program shared = program();
  std::vector<float> memory(4096);
  Call call(1);
  const auto at = [&](std::size_t offset) {
    const auto aligned = (256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256) / 4;
    return TensorView{memory.data() + aligned + offset, DType::f32, {kM, kK}};
  };
  const auto on = [&](std::size_t x, std::size_t r, std::size_t y) {
    std::vector<Binding> tensors = call.bindings(0.5);
    tensors[0].view = at(x);
    tensors[2].view = at(r);
    tensors[4].view = at(y);
    return tensors;
  };
  EXPECT_EQ(error_of(shared, on(0, 1024, 2048)), "");
  const std::string with_x = error_of(shared, on(64, 1024, 128));
  EXPECT_NE(with_x.find("output 'y' shares memory with input 'x'"), std::string::npos) << with_x;
  for (int repeat = 0; repeat < 2; ++repeat) {
    EXPECT_EQ(error_of(shared, on(0, 2048, 2048)), "") << "in place";
    EXPECT_NE(error_of(shared, on(0, 2112, 2048)), "") << "beside its place";
  }
  EXPECT_EQ(error_of(shared, on(0, 1024, 1024)), "") << "in place elsewhere";
  EXPECT_EQ(shared.state().recent.size(), 1u);
}

TEST(PreparedCalls, AnOverlapAmongManyTensorsIsRefusedAfterAGoodCall) {
  constexpr int kInputs = 20;  // more than are compared by pairs
  std::string text = "graph g(x0: f32[N]", sums = "  s0 = neg x0\n";
  for (int i = 1; i < kInputs; ++i) {
    text += ", x" + std::to_string(i) + ": f32[N]";
    sums += "  s" + std::to_string(i) + " = add s" + std::to_string(i - 1) + ", x" +
            std::to_string(i) + "\n";
  }
  text += ") {\n" + sums + "  return s" + std::to_string(kInputs - 1) + " as y\n}";
  const Program shared = compile(Graph::parse(text), Target::cpu());
  constexpr std::int64_t kHalf = 64;  // floats, 256 bytes: addresses keep their remainder
  std::vector<float> memory(2 * kHalf * (kInputs + 2), 1.0F);
  const auto at = [&](std::int64_t halves) {
    return TensorView{memory.data() + halves * kHalf, DType::f32, {2 * kHalf}};
  };
  std::vector<Binding> tensors;
  for (int i = 0; i < kInputs; ++i) tensors.emplace_back("x" + std::to_string(i), at(2 * i));
  tensors.emplace_back("y", at(2 * kInputs));
  EXPECT_EQ(error_of(shared, tensors), "");
  tensors.back().view = at(2 * 7 + 1);  // half of one input and half of the next
  EXPECT_NE(error_of(shared, tensors).find("output 'y' shares memory with input"),
            std::string::npos);
  tensors.back().view = at(2 * (kInputs - 1));  // which the last step reads
  EXPECT_EQ(error_of(shared, tensors), "") << "in place";
  EXPECT_EQ(shared.state().recent.size(), 1u);
}

TEST(PreparedCalls, ANullPointerIsRefusedAfterAGoodCall) {
  const Program shared = program();
  Call call(1);
  shared.run(call.bindings(0.5));
  std::vector<Binding> tensors = call.bindings(0.5);
  tensors[0].view.data = nullptr;
  EXPECT_NE(error_of(shared, tensors).find("got a null pointer"), std::string::npos);
}

TEST(PreparedCalls, MoreFormsThanAreRememberedStayRight) {
  const Program shared =
      compile(Graph::parse("graph g(x: f32[N]) {\n  y = neg x\n  return y\n}"), Target::cpu());
  std::vector<float> x(3000), y(3000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) + 1;
  for (std::int64_t n = 1; n <= 1500; ++n) {
    const TensorView from{x.data(), DType::f32, {n}}, to{y.data(), DType::f32, {n}};
    shared.run({{"x", from}, {"y", to}});
    ASSERT_EQ(y[static_cast<std::size_t>(n) - 1], -x[static_cast<std::size_t>(n) - 1]);
  }
  EXPECT_EQ(shared.state().recent.size(), kMostForms);
}

TEST(PreparedCalls, ThreadsShareAForm) {
  const Program shared = program();
  const std::vector<float> expected[] = {alone(0, 0.5), alone(1, 0.5), alone(2, 0.5)};
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        Call call(static_cast<float>(t));
        shared.run(call.bindings(0.5));
        if (call.result() != expected[t]) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace epifuse
