// Outputs that share memory with other tensors: what is refused, and what is right.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "backends/overlaps.h"
#include "epifuse/epifuse.h"
#include "tests/common/host_tensor.h"

namespace epifuse {
namespace {

using testing::HostTensor;

constexpr const char* kResidual =
    "graph g(x: f32[M, K], w: f32[K, N], r: f32[M, N]) {\n"
    "  h = matmul x, w\n  y = add h, r\n  return y\n}";

Program on_cpu(const std::string& text, bool fuse = true) {
  CompileOptions options;
  options.fuse = fuse;
  return compile(Graph::parse(text), Target::cpu(), options);
}

std::string error_of(const Program& program, const std::vector<Binding>& tensors) {
  try {
    program.run(tensors);
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "";
}

Binding at(const std::string& name, HostTensor& memory, std::int64_t offset,
           std::vector<std::int64_t> shape, std::vector<std::int64_t> strides = {}) {
  auto* data = memory.bytes().data() + offset * static_cast<std::int64_t>(sizeof(float));
  return {name, TensorView{data, DType::f32, std::move(shape), std::move(strides)}};
}

class Overlaps : public ::testing::Test {
 protected:
  Overlaps() {
    std::mt19937_64 random(3);
    for (HostTensor* tensor : {&x, &w, &r}) tensor->fill_normal(random);
  }
  HostTensor x{DType::f32, {40, 8}}, w{DType::f32, {8, 24}}, r{DType::f32, {40, 24}},
      y{DType::f32, {40, 24}};
};

constexpr const char* kOrInPlace =
    ", or the input itself where the step that writes the output reads it element by element and "
    "no later step reads it";

TEST_F(Overlaps, AResidualMayBeOverwrittenInPlace) {
  const Program program = on_cpu(kResidual);
  ASSERT_EQ(error_of(program, {x.bind("x"), w.bind("w"), r.bind("r"), y.bind("y")}), "");
  ASSERT_EQ(error_of(program, {x.bind("x"), w.bind("w"), r.bind("r"), r.bind("y")}), "");
  EXPECT_EQ(r.bytes(), y.bytes());
  // A program of one step an op reads it as late.
  std::mt19937_64 random(5);
  r.fill_normal(random);
  const Program chain = on_cpu(kResidual, false);
  ASSERT_EQ(error_of(chain, {x.bind("x"), w.bind("w"), r.bind("r"), y.bind("y")}), "");
  ASSERT_EQ(error_of(chain, {x.bind("x"), w.bind("w"), r.bind("r"), r.bind("y")}), "");
  EXPECT_EQ(r.bytes(), y.bytes());
}

// The one row that there is takes the place of a bias.
TEST_F(Overlaps, AResidualOfOneRowMayBeOverwrittenInPlace) {
  const Program program = on_cpu(
      "graph g(x: f32[1, K], w: f32[K, N], r: f32[1, N]) {\n"
      "  h = matmul x, w\n  y = add h, r\n  return y\n}");
  const Binding in = at("x", x, 0, {1, 8}), residual = at("r", r, 0, {1, 24});
  ASSERT_EQ(error_of(program, {in, w.bind("w"), residual, at("y", y, 0, {1, 24})}), "");
  ASSERT_EQ(error_of(program, {in, w.bind("w"), residual, at("y", r, 0, {1, 24})}), "");
  for (std::int64_t i = 0; i < 24; ++i) EXPECT_EQ(r.get(i), y.get(i));
}

TEST_F(Overlaps, AnOutputOverAnOperandIsRefused) {
  const Program square = on_cpu(
      "graph g(x: f32[M, M], w: f32[M, M]) {\n  h = matmul x, w\n  y = relu h\n  return y\n}");
  HostTensor a(DType::f32, {8, 8}), b(DType::f32, {8, 8});
  EXPECT_EQ(error_of(square, {a.bind("x"), b.bind("w"), a.bind("y")}),
            std::string("output 'y' shares memory with input 'x': expected memory of its own") +
                kOrInPlace);
  EXPECT_NE(error_of(square, {a.bind("x"), b.bind("w"), b.bind("y")}).find("input 'w'"),
            std::string::npos);
}

TEST_F(Overlaps, AResidualThatLiesOtherwiseIsRefused) {
  const Program program = on_cpu(kResidual);
  HostTensor memory(DType::f32, {4000});
  const auto error = [&](const Binding& residual, const Binding& output) {
    return error_of(program, {x.bind("x"), w.bind("w"), residual, output});
  };
  EXPECT_EQ(error(at("r", memory, 0, {40, 24}), at("y", memory, 0, {40, 24})), "");
  EXPECT_NE(error(at("r", memory, 0, {40, 24}), at("y", memory, 1, {40, 24})), "");
  EXPECT_NE(error(at("r", memory, 0, {40, 24}), at("y", memory, 0, {40, 24}, {25, 1})), "");
  EXPECT_NE(error(at("r", memory, 0, {40, 24}), at("y", memory, 24, {40, 24})), "");
  EXPECT_EQ(error(at("r", memory, 0, {40, 24}), at("y", memory, 960, {40, 24})), "");
}

TEST_F(Overlaps, AnInputThatIsReadLaterIsRefused) {
  const Program later = on_cpu(
      "graph g(x: f32[M, K], w: f32[K, K], r: f32[M, K], v: f32[K, N]) {\n"
      "  h = matmul x, w\n  y = add h, r\n  z = matmul r, v\n  return y, z\n}");
  HostTensor square(DType::f32, {8, 8}), in(DType::f32, {40, 8}), z(DType::f32, {40, 24});
  EXPECT_NE(error_of(later, {x.bind("x"), square.bind("w"), in.bind("r"), w.bind("v"), in.bind("y"),
                             z.bind("z")})
                .find("output 'y' shares memory with input 'r'"),
            std::string::npos);
}

// Whoever stores `y` before `r` is read for `z` would be wrong.
TEST_F(Overlaps, AnOutputThatIsNotMadeOfTheInputIsRefused) {
  const std::string text =
      "graph g(x: f32[M, K], w: f32[K, N], r: f32[M, N]) {\n"
      "  h = matmul x, w\n  y = relu h\n  z = add h, r\n  return y, z\n}";
  HostTensor z(DType::f32, {40, 24});
  for (const bool fuse : {true, false}) {
    EXPECT_NE(error_of(on_cpu(text, fuse),
                       {x.bind("x"), w.bind("w"), r.bind("r"), r.bind("y"), z.bind("z")}),
              "");
  }
}

TEST_F(Overlaps, TwoResultsOneOfThemInPlace) {
  const Program program = on_cpu(
      "graph g(x: f32[M, K], w: f32[K, N], r: f32[M, N]) {\n"
      "  h = matmul x, w\n  y = add h, r\n  z = mul h, r\n  return y, z\n}");
  HostTensor z(DType::f32, {40, 24}), again(DType::f32, {40, 24});
  ASSERT_EQ(error_of(program, {x.bind("x"), w.bind("w"), r.bind("r"), y.bind("y"), z.bind("z")}),
            "");
  ASSERT_EQ(
      error_of(program, {x.bind("x"), w.bind("w"), r.bind("r"), r.bind("y"), again.bind("z")}), "");
  EXPECT_EQ(r.bytes(), y.bytes());
  EXPECT_EQ(again.bytes(), z.bytes());
}

TEST_F(Overlaps, OutputsShareNoMemory) {
  const Program two = on_cpu(
      "graph g(x: f32[M, K], w: f32[K, N]) {\n"
      "  h = matmul x, w\n  y = relu h\n  z = neg h\n  return y, z\n}");
  EXPECT_EQ(error_of(two, {x.bind("x"), w.bind("w"), y.bind("y"), y.bind("z")}),
            "output 'z' shares memory with output 'y': expected memory of its own");
  // Columns of one buffer, behind each other and by turns.
  HostTensor memory(DType::f32, {40 * 48}), z(DType::f32, {40, 24});
  ASSERT_EQ(error_of(two, {x.bind("x"), w.bind("w"), y.bind("y"), z.bind("z")}), "");
  const std::vector<std::pair<std::int64_t, std::int64_t>> places{{24, 1}, {1, 2}};
  for (const auto& [offset, stride] : places) {
    const Binding left = at("y", memory, 0, {40, 24}, {48, stride});
    const Binding right = at("z", memory, offset, {40, 24}, {48, stride});
    ASSERT_EQ(error_of(two, {x.bind("x"), w.bind("w"), left, right}), "");
    for (std::int64_t i = 0; i < 960; ++i) {
      const std::int64_t place = i / 24 * 48 + i % 24 * stride;
      ASSERT_EQ(memory.get(place), y.get(i));
      ASSERT_EQ(memory.get(place + offset), z.get(i));
    }
  }
  EXPECT_NE(error_of(two, {x.bind("x"), w.bind("w"), at("y", memory, 0, {40, 24}, {48, 1}),
                           at("z", memory, 23, {40, 24}, {48, 1})}),
            "");
}

TEST_F(Overlaps, RowsThatFoldOntoEachOtherAreRefused) {
  const Program program = on_cpu(kResidual);
  HostTensor memory(DType::f32, {4000});
  EXPECT_EQ(error_of(program, {x.bind("x"), w.bind("w"), r.bind("r"),
                               at("y", memory, 0, {40, 24}, {23, 1})}),
            "output 'y' is declared f32[M, N]: got strides [23, 1], whose elements overlap");
}

TEST_F(Overlaps, ManyTensorsTakeLinearTime) {
  constexpr int kCount = 30'000;
  std::string text = "graph g(x: f32[4]) {\n";
  std::string names;
  for (int i = 0; i < kCount; ++i) {
    text += "  y" + std::to_string(i) + " = add x, " + std::to_string(i) + "\n";
    names += (i == 0 ? "y" : ", y") + std::to_string(i);
  }
  const ir::Graph graph = Graph::parse(text + "  return " + names + "\n}").ir();
  HostTensor in(DType::f32, {4}), memory(DType::f32, {4 * kCount});
  std::vector<Binding> tensors{in.bind("x")};
  for (int i = 0; i < kCount; ++i) {
    tensors.push_back(at("y" + std::to_string(i), memory, std::int64_t{4} * i, {4}));
  }
  plan::Plan plan;
  plan.graph = graph;
  const auto start = std::chrono::steady_clock::now();
  const codegen::Bound bound = backends::bind(plan, tensors, DeviceKind::cpu);
  backends::check_overlaps(plan, bound, backends::InPlace::allowed);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 2.0);  // 0.05 s; by pairs 10 s and more
}

}  // namespace
}  // namespace epifuse
