// Binding: sizes read off tensors, views resolved, and what callers are told when something is off.
#include <gtest/gtest.h>

#include <limits>

#include "backends/backend.h"
#include "backends/bind.h"
#include "epifuse/error.h"
#include "ir/text.h"
#include "plan/plan.h"
#include "tests/common/host_tensor.h"

namespace epifuse::backends {
namespace {

using testing::HostTensor;

constexpr const char* kLinear =
    "graph g(x: bf16[M, K], w: bf16[N, K], b: bf16[N], s: scalar) {\n"
    " h = matmul x, w^T\n t = add h, b\n y = mul t, s\n return y\n}";

class Bind : public ::testing::Test {
 protected:
  HostTensor x{DType::bf16, {3, 8}}, w{DType::bf16, {5, 8}}, b{DType::bf16, {5}},
      y{DType::bf16, {3, 5}};
  std::vector<Binding> tensors() {
    return {x.bind("x"), w.bind("w"), b.bind("b"), y.bind("y"), {"s", 2.0}};
  }
};

std::string error_of(const std::string& text, const std::vector<Binding>& tensors) {
  try {
    match(ir::parse(text), tensors, DeviceKind::cpu, Outputs::required);
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "";
}

TEST_F(Bind, ReadsSizesOffTheTensors) {
  const std::vector<Binding> bindings = tensors();
  const Matched matched = match(ir::parse(kLinear), bindings, DeviceKind::cpu, Outputs::required);
  EXPECT_EQ(matched.sizes, (Sizes{{"M", 3}, {"N", 5}, {"K", 8}}));
}

TEST_F(Bind, ReadsSymbolicStrides) {
  HostTensor padded(DType::f32, {2, 3}, {10, 1}), out(DType::f32, {2, 3});
  const auto graph = ir::parse("graph g(x: f32[M, N] strides [L, 1]) {\n y = neg x\n return y\n}");
  const std::vector<Binding> bindings{padded.bind("x"), out.bind("y")};
  EXPECT_EQ(match(graph, bindings, DeviceKind::cpu, Outputs::required).sizes,
            (Sizes{{"M", 2}, {"N", 3}, {"L", 10}}));
}

TEST_F(Bind, SizesThatDisagree) {
  HostTensor other(DType::bf16, {5, 9});
  std::vector<Binding> bindings = tensors();
  bindings[1] = other.bind("w");
  EXPECT_EQ(error_of(kLinear, bindings),
            "input 'w' is declared bf16[N, K]: got [5, 9], where K is 8");
}

TEST_F(Bind, WrongDTypeRankDeviceAndPointer) {
  std::vector<Binding> bindings = tensors();
  bindings[2].view.dtype = DType::f32;
  EXPECT_EQ(error_of(kLinear, bindings), "input 'b' is declared bf16[N]: got f32 elements");
  bindings = tensors();
  bindings[0].view = b.view();
  EXPECT_EQ(error_of(kLinear, bindings),
            "input 'x' is declared bf16[M, K]: got a tensor of 1 dims, [5]");
  bindings = tensors();
  bindings[3].view.device = DeviceKind::cuda;
  EXPECT_EQ(error_of(kLinear, bindings),
            "output 'y' is declared bf16[M, N]: got CUDA device memory where host memory is "
            "expected");
  bindings = tensors();
  bindings[0].view.data = nullptr;
  EXPECT_EQ(error_of(kLinear, bindings), "input 'x' is declared bf16[M, K]: got a null pointer");
}

TEST_F(Bind, ANumberForATensor) {
  std::vector<Binding> bindings = tensors();
  bindings[0] = Binding("x", 2.0);
  EXPECT_EQ(error_of(kLinear, bindings),
            "input 'x' is declared bf16[M, K]: got a number, which run-time scalars take");
}

TEST_F(Bind, AddressesBetweenElements) {
  std::vector<Binding> bindings = tensors();
  bindings[0].view.data = static_cast<char*>(bindings[0].view.data) + 1;
  EXPECT_EQ(
      error_of(kLinear, bindings),
      "input 'x' is declared bf16[M, K]: got an address that is no multiple of an element's 2 "
      "bytes");
}

TEST_F(Bind, NamesThatAreMissingUnknownOrTwice) {
  std::vector<Binding> bindings = tensors();
  bindings.pop_back();
  EXPECT_EQ(error_of(kLinear, bindings), "nothing is bound to scalar 's' of graph 'g'");
  bindings = tensors();
  bindings.push_back(b.bind("bias"));
  EXPECT_EQ(error_of(kLinear, bindings),
            "graph 'g' has no input or output 'bias'; it has x, w, b, s, y");
  bindings = tensors();
  bindings.push_back(b.bind("b"));
  EXPECT_EQ(error_of(kLinear, bindings), "'b' is bound twice in one call");
  bindings = tensors();
  bindings.back() = b.bind("s");
  EXPECT_EQ(error_of(kLinear, bindings),
            "'s' is a run-time scalar: expected a number, got a tensor");
}

TEST_F(Bind, StridesThatDoNotFit) {
  HostTensor column_major(DType::bf16, {3, 8}, {1, 3}), repeated(DType::bf16, {3, 5}, {0, 1});
  std::vector<Binding> bindings = tensors();
  bindings[0] = column_major.bind("x");
  EXPECT_EQ(error_of(kLinear, bindings),
            "input 'x' is declared bf16[M, K]: got strides [1, 3], where the last must be 1");
  bindings = tensors();
  bindings[3] = repeated.bind("y");
  EXPECT_EQ(error_of(kLinear, bindings),
            "output 'y' is declared bf16[M, N]: got strides [0, 1], whose elements overlap");
}

TEST_F(Bind, SizesThatWrapAreRefusedBeforeAnythingIsCounted) {
  const std::int64_t huge = std::int64_t{1} << 32;
  std::vector<std::int64_t> memory(1);
  TensorView in{memory.data(), DType::f32, {huge, 1}}, row{memory.data(), DType::f32, {1, huge}};
  TensorView out{nullptr, DType::f32, {huge, huge}};
  const std::string text = "graph g(x: f32[M, 1], r: f32[1, N]) {\n y = add x, r\n return y\n}";
  EXPECT_EQ(error_of(text, {{"x", in}, {"r", row}, {"y", out}}),
            "output 'y' is declared f32[M, N]: got [4294967296, 4294967296], more than 2^40 "
            "elements");
  in.shape = {2, 3};
  in.strides = {std::int64_t{1} << 62, 1};
  EXPECT_EQ(error_of("graph g(x: f32[M, N]) {\n y = neg x\n return y\n}", {{"x", in}, {"y", in}}),
            "input 'x' is declared f32[M, N]: got [2, 3] with strides [4611686018427387904, 1], "
            "which reach over more than 2^40 elements");
}

// Only `top` lies in memory, but kernels count the elements of h.
TEST_F(Bind, ValuesThatNobodyStoresMayNotWrapEither) {
  const std::int64_t huge = std::int64_t{1} << 32;
  HostTensor one(DType::f32, {1});
  const TensorView in{one.view().data, DType::f32, {huge, 1}, {0, 1}};
  const TensorView row{one.view().data, DType::f32, {1, huge}};
  const TensorView top{one.view().data, DType::f32, {huge, 1}};
  plan::Plan plan = plan::make_plan(
      ir::parse("graph g(x: f32[M, 1], w: f32[1, N]) {\n h = matmul x, w\n top = row_max h\n"
                " return top\n}"),
      {});
  const std::vector<Binding> bindings{{"x", in}, {"w", row}, {"top", top}};
  try {
    backends::bind(plan, bindings, DeviceKind::cpu);
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(),
                 "expected a shape of at most 2^40 elements, got [M, N], which is [4294967296, "
                 "4294967296]");
  }
}

TEST_F(Bind, StridesOfSizeOneMayBeAnyNumber) {
  HostTensor in(DType::f32, {1, 3}), out(DType::f32, {1, 3});
  TensorView view = in.view();
  view.strides = {std::numeric_limits<std::int64_t>::max(), 1};
  plan::Plan plan;
  plan.graph = ir::parse("graph g(x: f32[M, 3]) {\n y = neg x\n return y\n}");
  const std::vector<Binding> bindings{{"x", view}, out.bind("y")};
  const codegen::Bound bound = backends::bind(plan, bindings, DeviceKind::cpu);
  EXPECT_EQ(bound.tensors[0].layout.strides, (std::vector<std::int64_t>{0, 1}));
}

TEST_F(Bind, StrideSymbolsAreReadWhereDimsAreSteppedAlong) {
  HostTensor one(DType::f32, {1, 3}, {99, 1}), two(DType::f32, {2, 3}, {10, 1}),
      out(DType::f32, {2, 3});
  const std::string text =
      "graph g(a: f32[1, N] strides [L, 1], b: f32[M, N] strides [L, 1]) {\n y = add a, b\n"
      " return y\n}";
  const std::vector<Binding> bindings{one.bind("a"), two.bind("b"), out.bind("y")};
  const auto graph = ir::parse(text);
  EXPECT_EQ(match(graph, bindings, DeviceKind::cpu, Outputs::required).sizes.at("L"), 10);
}

// The value of `t` is the input with its strides; the tensor that `t` is written to has its own.
TEST_F(Bind, AnOutputThatIsAnInputDeclaresNoStrides) {
  HostTensor in(DType::f32, {4, 6}, {1, 5}), out(DType::f32, {4, 6});
  EXPECT_EQ(error_of("graph g(x: f32[M, N] strides [1, L]) {\n return x as t\n}",
                     {in.bind("x"), out.bind("t")}),
            "");
  EXPECT_EQ(error_of("graph g(x: f32[M, N] strides [1, 5]) {\n return x as t\n}",
                     {in.bind("x"), out.bind("t")}),
            "");
}

TEST_F(Bind, ManyTensorsAreFoundByName) {
  std::string text = "graph g(";
  std::vector<Binding> bindings;
  HostTensor in(DType::f32, {2});
  for (int i = 0; i < 40; ++i) {
    const std::string name = "x" + std::to_string(i);
    text += (i == 0 ? "" : ", ") + name + ": f32[N]";
    bindings.push_back(in.bind(name));
  }
  text += ") {\n y = neg x7\n return y\n}";
  HostTensor out(DType::f32, {2});
  bindings.push_back(out.bind("y"));
  EXPECT_EQ(error_of(text, bindings), "");
  bindings.push_back(in.bind("x3"));
  EXPECT_EQ(error_of(text, bindings), "'x3' is bound twice in one call");
  bindings.back() = in.bind("z");
  EXPECT_EQ(error_of(text, bindings),
            "graph 'g' has no input or output 'z'; it has x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, "
            "x10, x11, x12, x13, x14, x15, x16, x17, x18, x19 and 21 more");
  bindings.pop_back();
  bindings.erase(bindings.begin() + 5);
  EXPECT_EQ(error_of(text, bindings), "nothing is bound to input 'x5' of graph 'g'");
}

TEST_F(Bind, OutputsLieAsTheirTensorsDo) {
  HostTensor column_major(DType::bf16, {3, 5}, {1, 3});
  std::vector<Binding> bindings = tensors();
  bindings[3] = column_major.bind("y");
  EXPECT_EQ(error_of(kLinear, bindings), "");
}

TEST_F(Bind, SymbolThatNothingTells) {
  HostTensor in(DType::f32, {6}), out(DType::f32, {6});
  EXPECT_EQ(
      error_of("graph g(x: f32[2*M]) {\n y = neg x\n return y\n}", {in.bind("x"), out.bind("y")}),
      "input 'x' is declared f32[2*M]: 'M' cannot be read off any tensor, as it stands alone "
      "in no size or stride");
}

TEST_F(Bind, EmptyTensorsNeedNoMemory) {
  HostTensor none(DType::f32, {0, 3}), out(DType::f32, {0, 3});
  EXPECT_EQ(error_of("graph g(x: f32[M, N]) {\n y = neg x\n return y\n}",
                     {none.bind("x"), out.bind("y")}),
            "");
}

TEST_F(Bind, ResolvesViewsOfInputs) {
  HostTensor in(DType::f32, {4, 6}, {7, 1}), out(DType::f32, {3, 4});
  const ir::Graph graph = ir::parse(
      "graph g(x: f32[M, 6]) {\n s = slice x [0:M, 1:6:2]\n t = transpose s\n y = neg t\n"
      " return y\n}");
  plan::Plan plan;
  plan.graph = graph;
  const std::vector<Binding> bindings{in.bind("x"), out.bind("y")};
  const codegen::Bound bound = backends::bind(plan, bindings, DeviceKind::cpu);
  const codegen::BoundTensor& view = bound.tensors[2];
  EXPECT_EQ(view.data, in.view().data);
  EXPECT_EQ(view.layout.offset, 1);
  EXPECT_EQ(view.layout.shape, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(view.layout.strides, (std::vector<std::int64_t>{2, 7}));
  EXPECT_EQ(bound.tensors[3].data, out.view().data);
}

TEST_F(Bind, CountsBlockScales) {
  HostTensor x8(DType::e4m3, {3, 300}), w8(DType::e4m3, {130, 300}), sx(DType::f32, {3, 3});
  HostTensor few(DType::f32, {1, 3}), enough(DType::f32, {2, 3}), out(DType::f32, {3, 130});
  const plan::Plan plan = plan::make_plan(
      ir::parse("graph g(x: e4m3[M, K], w: e4m3[N, K], s: f32[M, KB], t: f32[NB, KB]) {\n"
                " y = scaled_matmul x, w^T, s, t\n return y\n}"),
      {});
  std::vector<Binding> bindings{x8.bind("x"), w8.bind("w"), sx.bind("s"), enough.bind("t"),
                                out.bind("y")};
  EXPECT_NO_THROW(backends::bind(plan, bindings, DeviceKind::cpu));
  bindings[3] = few.bind("t");
  try {
    backends::bind(plan, bindings, DeviceKind::cpu);
    FAIL() << "a scale too few";
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(),
                 "scaled_matmul 'y' expects 2 blocks of 128 for N = 130, got 1 in 't'");
  }
}

}  // namespace
}  // namespace epifuse::backends
