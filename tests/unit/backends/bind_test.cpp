// Binding: sizes read off tensors, views resolved, and what callers are told when something is off.
#include <gtest/gtest.h>

#include "backends/backend.h"
#include "backends/bind.h"
#include "epifuse/error.h"
#include "ir/text.h"
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

}  // namespace
}  // namespace epifuse::backends
