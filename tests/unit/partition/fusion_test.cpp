// What frameworks are told to fuse: which values, as which graphs, in which shapes.
#include "epifuse/fusion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <string>

#include "compile/compile.h"
#include "epifuse/error.h"
#include "ir/graph.h"
#include "ir/text.h"
#include "partition/partition.h"
#include "tests/unit/partition/found.h"

namespace epifuse {
namespace {

const char* const kLayer =
    "graph g(x: bf16[B*S, K], w: bf16[K, N], b: bf16[N], r: bf16[B, S, N]) {\n"
    "  h = matmul x, w\n  t = add h, b\n  g = gelu_erf t\n  v = reshape g [B, S, N]\n"
    "  y = add v, r\n  return y\n}\n";

TEST(Fusion, TakesInTheWorkOnAProductAndSeesThroughReshapes) {
  EXPECT_EQ(found(kLayer),
            "matmul_bias_gelu_erf_residual(x, w, b, r[B*S, N]) -> y[B*S, N]: h t g y\n");
}

TEST(Fusion, KernelTextHasNoNameOfTheFramework) {
  const Fusions fusions = find_fusions(Graph::parse(kLayer), Target::cpu());
  ASSERT_EQ(fusions.kernels.size(), 1U);
  EXPECT_EQ(fusions.kernels[0].graph.str(),
            "graph kernel(x0: bf16[d0, d1], x1: bf16[d1, d2], x2: bf16[d2], x3: bf16[d0, d2]) {\n"
            "  t0 = matmul x0, x1\n  t1 = add t0, x2\n  t2 = gelu_erf t1\n  t3 = add t2, x3\n"
            "  return t3 as y0\n}\n");
  EXPECT_EQ(fusions.kernels[0].epilogue, "bias+gelu_erf+residual");
}

TEST(Fusion, ValuesOfANormStayWithTheFramework) {
  // The framework reads y anyway; f and q cost four bytes each if they are stored.
  const std::string text =
      "graph g(x: bf16[M, K], w: bf16[K, N], r: bf16[M, N]) {\n  h = matmul x, w\n"
      "  y = add h, r\n  f = cast y -> f32\n  q = mul f, f\n  return y, f, q\n}\n";
  EXPECT_EQ(found(text, {.in_memory = {"y"}}),
            "matmul_residual(x, w, r) -> y[M, N]: h y\nf: stores_more\nq: stores_more\n");
}

TEST(Fusion, WhatIsSavedForBackwardIsAnotherResult) {
  const std::string text =
      "graph g(x: bf16[M, K], w: bf16[K, N], b: bf16[N]) {\n  h = matmul x, w\n"
      "  t = add h, b\n  y = silu t\n  return y, t\n}\n";
  EXPECT_EQ(found(text, {.in_memory = {"y", "t"}}),
            "matmul_bias_silu_output(x, w, b) -> t[M, N], y[M, N]: h t y\n");
}

TEST(Fusion, WorkOnAnOperandOfAViewIsTheKernelsToo) {
  // A backward pass of [B, S, N] activations: `e` is stored in f32 by nobody.
  const std::string text =
      "graph g(x: bf16[B*S, K], w: bf16[K, N], h: bf16[B, S, N]) {\n  p = matmul x, w\n"
      "  v = reshape p [B, S, N]\n  f = cast h -> f32\n  e = exp f\n  g = cast v -> f32\n"
      "  q = mul g, e\n  y = cast q -> bf16\n  return y\n}\n";
  EXPECT_EQ(found(text, {.in_memory = {"y"}}, kHopper),
            "matmul_exp_mul(x, w, h[B*S, N]) -> y[B*S, N]: p f e g q y\n");
}

// A sample that all repeat, and a residual by columns: as matrices they would be copies.
TEST(Fusion, WorkBesideWhatOnlyACopyReshapesStaysBehindTheReshape) {
  for (const std::string strides : {"[0, 128, 1]", "[2048, 1, 16]"}) {
    const std::string layer =
        "graph g(x: bf16[32, 64], w: bf16[64, 128], b: bf16[128],\n"
        "        r: bf16[2, 16, 128] strides " +
        strides +
        ") {\n"
        "  h = matmul x, w\n  t = add h, b\n  v = reshape t [2, 16, 128]\n  y = add v, r\n"
        "  return t, y\n}\n";
    EXPECT_EQ(found(layer, {.in_memory = {"t", "y"}}),
              "matmul_bias(x, w, b) -> t[32, 128]: h t\ny: view_of_result\n");
  }
}

TEST(Fusion, NothingWaitsForWhatTheFrameworkMakesOfIt) {
  // n is a norm of y; the last residual belongs to the second product, not to the first.
  const std::string text =
      "graph g(x: bf16[M, K], w: bf16[K, K], r: bf16[M, K], n: bf16[M, K], v: bf16[K, K]) {\n"
      "  h = matmul x, w\n  y = add h, r\n  u = matmul n, v\n  z = add y, u\n  return y, z\n}\n";
  EXPECT_EQ(found(text, {.after = {{"n", {"y"}}}, .in_memory = {"y", "z"}}),
            "matmul_residual(x, w, r) -> y[M, K]: h y\n"
            "matmul_residual(n, v, y) -> z[M, K]: u z\n");
}

TEST(Fusion, AProductWaitsForItsReader) {
  // The framework makes n of y; u could be computed before that, but its only reader could not.
  const std::string text =
      "graph g(x: bf16[M, K], w: bf16[K, K], v: bf16[K, K], n: bf16[M, K]) {\n"
      "  h = matmul x, w\n  y = relu h\n  u = matmul x, v\n  s = silu u\n  z = mul s, n\n"
      "  return y, z\n}\n";
  EXPECT_EQ(found(text, {.after = {{"n", {"y"}}}, .in_memory = {"y"}}),
            "matmul_relu(x, w) -> y[M, K]: h y\n"
            "matmul_silu_mul(x, v, n) -> z[M, K]: u s z\n");
}

const char* const kExperts =
    "graph g(x: bf16[S, K], w: bf16[G, K, N], b: bf16[G, N], p: f32[T, 1], e: i32[G],\n"
    "        rows: i64[T]) {\n"
    "  xt = take_rows x, rows\n  h = grouped_matmul xt, w, e\n  bt = repeat_rows b, e [T, N]\n"
    "  a = add h, bt\n  f = cast a -> f32\n  c = mul f, p\n  y = put_rows c, rows [T, N]\n"
    "  return y\n}\n";

TEST(Fusion, ExpertsLookTheirRowsUpThemselves) {
  const std::string kernel = "matmul_bias_col_scale(x, rows, w, e, b, p) -> y[T, N]: h a f c y\n";
  EXPECT_EQ(found(kExperts, {.in_memory = {"y"}}), kernel);
  EXPECT_EQ(found(kExperts, {.whole = {{"xt", "h"}, {"bt", "a"}}, .in_memory = {"y"}}), kernel);
}

TEST(Fusion, ExpertsAreOneKernelOnGpusWhereAFamilyTakesThem) {
  const std::string kernel = "matmul_bias_col_scale(x, rows, w, e, b, p) -> y[T, N]: h a f c y\n";
  EXPECT_EQ(found(kExperts, {.in_memory = {"y"}}, kHopper), kernel);
  std::string wide = kExperts;  // float32, which tensor cores multiply as TF32 only
  for (std::size_t at; (at = wide.find("bf16")) != std::string::npos;) wide.replace(at, 4, "f32");
  EXPECT_EQ(found(wide, {.in_memory = {"y"}}, kHopper),
            "h: looked_up_rows\na: looked_up_rows\nf: looked_up_rows\nc: looked_up_rows\n"
            "y: looked_up_rows\n");
}

TEST(Fusion, PartsOfAnOpGoTogether) {
  const std::string text =
      "graph g(x: bf16[M, K], w: bf16[K, N], b: bf16[N]) {\n  p = matmul x, w -> f32\n"
      "  c = cast b -> f32\n  s = add p, c\n  y = cast s -> bf16\n  z = relu y\n  return z\n}\n";
  EXPECT_EQ(found(text, {.whole = {{"p", "c", "s", "y"}}, .in_memory = {"z"}}),
            "matmul_bias_relu(x, w, b) -> z[M, N]: p c s y z\n");
}

TEST(Fusion, PartsOfAnOpFollowItBehindTheFramework) {
  // c needs no turn of the framework, but belongs to an op that does.
  const std::string text =
      "graph g(x: bf16[M, K], w: bf16[K, K], n: bf16[M, K], b: bf16[K]) {\n  h = matmul x, w\n"
      "  y = relu h\n  p = matmul n, w -> f32\n  c = cast b -> f32\n  s = add p, c\n"
      "  u = cast s -> bf16\n  z = add y, u\n  return y, z\n}\n";
  EXPECT_EQ(found(text, {.whole = {{"p", "c", "s", "u"}}, .after = {{"n", {"y"}}}}),
            "matmul_relu(x, w) -> y[M, K]: h y\n"
            "matmul_bias_residual(n, w, b, y) -> z[M, K]: p c s u z\n");
}

TEST(Fusion, ResultsOfOtherKernelsComeAsTheFrameworkHasThem) {
  const std::string text =
      "graph g(x: bf16[6, K], w: bf16[K, N], z: bf16[6, K], v: bf16[K, N]) {\n  h = matmul x, w\n"
      "  p = reshape h [2, 3, N]\n  s = silu p\n  u = matmul z, v\n  q = reshape u [2, 3, N]\n"
      "  y = mul s, q\n  return y\n}\n";
  EXPECT_EQ(found(text),
            "matmul_silu(x, w) -> s[6, N]: h s\nmatmul_mul(z, v, s[6, N]) -> y[6, N]: u y\n");
}

TEST(Fusion, HalvesBehindABiasAreOneKernelThatNamesWhatTheFrameworkHas) {
  const std::string text =
      "graph g(x: bf16[M, K], w: bf16[K, 64], b: bf16[64]) {\n  h = matmul x, w\n"
      "  t = add h, b\n  g1 = slice t [:, 0:32]\n  u = slice t [:, 32:64]\n  s = silu g1\n"
      "  y = mul s, u\n";
  EXPECT_EQ(found(text + "  return y\n}\n"), "matmul_bias_swiglu(x, w, b) -> y[M, 32]: h t s y\n");
  EXPECT_EQ(found(text + "  return y, t\n}\n"),
            "matmul_bias_swiglu_output(x, w, b) -> t[M, 64], y[M, 32]: h t s y\n");
}

TEST(Fusion, TwoProductsOfAGateAreOneKernel) {
  const std::string text =
      "graph g(x: bf16[6, K], w: bf16[K, N], v: bf16[K, N]) {\n  h = matmul x, w\n"
      "  p = reshape h [2, 3, N]\n  s = silu p\n  u = matmul x, v\n  q = reshape u [2, 3, N]\n"
      "  y = mul s, q\n  return y\n}\n";
  EXPECT_EQ(found(text), "matmul_swiglu(x, w, v) -> y[6, N]: h s u y\n");
}

// gelu'(h) as f32 would be stored and read, and h is in memory; what a cast alone makes smaller is
// not, unless its operand would be stored for the kernel.
const char* const kDerivative =
    "graph g(x: bf16[M, K], w: bf16[K, N], h: bf16[M, N]) {\n  d = matmul x, w\n"
    "  f = cast h -> f32\n  e = erf f\n  q = mul f, f\n  n = neg q\n  p = exp n\n"
    "  u = mul f, p\n  v = add e, u\n  c = cast d -> f32\n  z = mul c, v\n"
    "  y = cast z -> bf16\n  return y\n}\n";

TEST(Fusion, WorkOnOperandsThatAreInMemoryJoinsTheKernel) {
  const std::string inside = found(kDerivative, {.in_memory = {"y"}});
  EXPECT_NE(inside.find("(x, w, h) -> y[M, N]: d f e q n p u v c z y\n"), std::string::npos)
      << inside;
}

TEST(Fusion, WorkOnOperandsThatTheFrameworkNeverStoresStaysWithIt) {
  const std::string text =
      "graph g(x: bf16[M, K], w: bf16[K, N], r: f32[M, N]) {\n  h = matmul x, w\n"
      "  m = gt r, 0.1\n  y = select m, h, 0\n  return y\n}\n";
  const FusionRequest request{.in_memory = {"y"}, .unstored = {"r"}};
  EXPECT_NE(found(text, request).find("(x, w, m) -> y[M, N]: h y\n"), std::string::npos)
      << found(text, request);
}

TEST(Fusion, NoKernelStoresWhatNeedsNoProduct) {
  const std::string text =
      "graph g(x: bf16[M, K], w: bf16[K, N], r: bf16[M, N]) {\n  a = matmul x, w\n"
      "  s = sigmoid r\n  y = mul a, s\n  t = add y, s\n  return y, t\n}\n";
  const std::string lines = found(text, {.in_memory = {"y"}});
  EXPECT_NE(lines.find("(x, w, r) -> y[M, N]: a s y\n"), std::string::npos) << lines;
}

TEST(Fusion, ReductionsOfWhatTheFrameworkReadsAnywayAreTheFrameworks) {
  const std::string head =
      "graph g(x: bf16[M, K], w: bf16[K, N], r: bf16[M, N]) {\n  h = matmul x, w\n"
      "  y = add h, r\n  m = row_max y\n";
  EXPECT_EQ(found(head + "  return y, m\n}\n"),
            "matmul_residual(x, w, r) -> y[M, N]: h y\nm: stores_more\n");
  EXPECT_EQ(found(head + "  return m\n}\n"),
            "matmul_residual_row_max(x, w, r) -> m[M, 1]: h y m\n");
}

TEST(Fusion, WhatTheFrameworkComputesWhereItReadsTheProductIsLeftToIt) {
  const std::string text =
      "graph g(x: bf16[M, K], w: bf16[K, N]) {\n  h = matmul x, w\n  y = relu h\n"
      "  return y\n}\n";
  EXPECT_EQ(found(text), "y: saves_nothing\nh: nothing_to_fuse\n");
  EXPECT_EQ(found(text, {.in_memory = {"y"}}), "matmul_relu(x, w) -> y[M, N]: h y\n");
}

// A weight's gradient under autocast: the framework's product could store bf16 only.
TEST(Fusion, AProductInAWiderDtypeIsAKernel) {
  const std::string text =
      "graph g(x: bf16[M, K], w: bf16[K, N]) {\n  h = matmul x, w\n  y = cast h -> f32\n"
      "  return y\n}\n";
  EXPECT_EQ(found(text, {.in_memory = {"y"}}, kHopper), "matmul_identity(x, w) -> y[M, N]: h y\n");
  EXPECT_EQ(found(text, {}, kHopper), "y: stores_more\nh: nothing_to_fuse\n");
}

const char* const kSum =
    "graph g(x: bf16[M, K], v: bf16[K, N], w: bf16[K, N], n: bf16[M, K], z: bf16[M, K]) {\n"
    "  a = matmul z, v\n  b = matmul x, w\n  f = cast a -> f32\n  g = cast b -> f32\n"
    "  s = add f, g\n";

TEST(Fusion, ResultsAreWidenedWhereTheyAreReadNotWhereTheyAreStored) {
  const std::string text = std::string(kSum) + "  return s\n}\n";
  EXPECT_EQ(found(text, {.in_memory = {"s"}}),
            "matmul_residual(x, w, a) -> s[M, N]: b f g s\na: nothing_to_fuse\n");
  // The framework makes n of s: b's product is of another turn.
  const std::string turns =
      "graph g(x: bf16[M, K], v: bf16[K, K], n: bf16[M, K]) {\n  a = matmul x, v\n"
      "  f = cast a -> f32\n  e = exp f\n  b = matmul n, v\n  g = cast b -> f32\n"
      "  s = add f, g\n  return e, s\n}\n";
  EXPECT_EQ(found(turns, {.after = {{"n", {"e"}}}, .in_memory = {"e", "s"}}),
            "matmul_exp_output(x, v) -> a[M, K], e[M, K]: a f e\n"
            "matmul_residual(n, v, a) -> s[M, K]: b g f s\n");
}

// The sum of two would be stored for the third kernel alone, which does not pay itself.
TEST(Fusion, NothingIsStoredForAKernelThatIsNone) {
  const std::string text = std::string(kSum) +
                           "  c = matmul n, w\n  d = cast c -> f32\n  t = add s, d\n"
                           "  return t\n}\n";
  EXPECT_EQ(found(text).find("matmul_residual"), std::string::npos) << found(text);
  EXPECT_NE(found(text, {.in_memory = {"t"}}).find(" -> t[M, N]"), std::string::npos);
}

TEST(Fusion, BareProductsAreTheFrameworks) {
  EXPECT_EQ(found("graph g(x: bf16[M, K], w: bf16[K, N]) {\n  y = matmul x, w\n  return y\n}\n"),
            "y: nothing_to_fuse\n");
}

TEST(Fusion, SaysWhyATargetHasNoKernel) {
  const std::string text =
      "graph g(x: f32[M, K], w: f32[K, N] strides [1, S], b: f32[N]) {\n  h = matmul x, w\n"
      "  y = add h, b\n  return y\n}\n";
  const FusionRequest request{.in_memory = {"y"}};
  EXPECT_EQ(found(text, request), "matmul_bias(x, w, b) -> y[M, N]: h y\n");
  EXPECT_EQ(find_fusions(Graph::parse(text), Target::cpu(), {}, request)
                .kernels.at(0)
                .graph.str()
                .find("strides"),
            std::string::npos);
  const Fusions fusions = find_fusions(Graph::parse(text), kHopper, {}, request);
  EXPECT_TRUE(fusions.kernels.empty());
  ASSERT_EQ(fusions.left_out.size(), 2U);
  EXPECT_EQ(fusions.left_out[0].code, "tf32_not_allowed");
  EXPECT_EQ(fusions.left_out[0].why.substr(0, 9), "x is f32,");
  EXPECT_EQ(found(text, request, kHopper, {.allow_tf32 = true}),
            "matmul_bias(x, w, b) -> y[M, N]: h y\n");
}

TEST(Fusion, CallsOperandsOfAnEpilogueByTheFrameworksNames) {
  const std::string text =
      "graph g(x: bf16[M, K], w: bf16[K, N], table: bf16[R, N], i: i32[M]) {\n"
      "  h = matmul x, w\n  looked = take_rows table, i\n  y = add h, looked\n  return y\n}\n";
  const Fusions fusions = find_fusions(Graph::parse(text), kHopper);
  ASSERT_EQ(fusions.left_out.size(), 2U);
  EXPECT_EQ(fusions.left_out[0].code, "looked_up_rows");
  EXPECT_EQ(fusions.left_out[0].why.substr(0, 16), "looked has rows ");
}

// Data-centre Blackwell multiplies 8-bit floats by instructions that no family has.
TEST(Fusion, LeavesToAFramework8BitFloatsThatKernelsConvert) {
  const std::string layer =
      "graph g(x: e4m3[M, K], w: e5m2[N, K], s: f32[N]) {\n"
      "  h = matmul x, w^T\n  t = mul h, s\n  y = cast t -> bf16\n  return y\n}\n";
  const std::string fused = "matmul_row_scale(x, w, s) -> y[M, N]: h t y\n";
  const std::string left =
      "h: framework_is_faster\nt: framework_is_faster\n"
      "y: framework_is_faster\n";
  FusionRequest request{.in_memory = {"y"}, .only_faster = true};
  for (const char* arch : {"sm_89", "sm_90a", "sm_120"}) {
    EXPECT_EQ(found(layer, request, {DeviceKind::cuda, arch}), fused) << arch;
  }
  EXPECT_EQ(found(layer, request, {DeviceKind::cuda, "sm_100"}), left);
  request.only_faster = false;
  EXPECT_EQ(found(layer, request, {DeviceKind::cuda, "sm_100"}), fused);
}

// As src/tune/framework_gemm.def says of products of 128 and of 16 rows.
TEST(Fusion, LeavesToAFrameworkWhatItRunsFaster) {
  const std::string layer =
      "graph g(x: bf16[M, K], w: bf16[K, N], b: bf16[N]) {\n"
      "  h = matmul x, w\n  t = add h, b\n  y = gelu_erf t\n  return y\n}\n";
  const std::string fused = "matmul_bias_gelu_erf(x, w, b) -> y[M, N]: h t y\n";
  FusionRequest request{.in_memory = {"y"}, .likely_sizes = {{"M", 128}, {"N", 384}, {"K", 384}}};
  EXPECT_EQ(found(layer, request), fused);
  request.only_faster = true;
  EXPECT_EQ(found(layer, request),
            "h: framework_is_faster\nt: framework_is_faster\ny: framework_is_faster\n");
  const auto why = [&layer, &request] {
    const Fusions none = find_fusions(Graph::parse(layer), Target::cpu(), {}, request);
    return none.left_out.at(0).why;
  };
  EXPECT_EQ(
      why(),
      "At 128x384x384 a kernel takes about 1.31 times as long as the product and a loop behind "
      "it.");
  request.likely_sizes = {{"M", 128}, {"N", 3072}, {"K", 768}};
  EXPECT_EQ(
      why(),
      "At 128x3072x768 a kernel saves about 2 % of the product and a loop behind it, and 10 % "
      "are asked for, as measurements scatter.");
  request.likely_sizes = {{"M", 8}, {"N", 64}, {"K", 64}};
  EXPECT_EQ(
      why(),
      "At 8x64x64 a kernel takes longer than the product and a loop behind it: so little work "
      "takes less time than the call of a kernel.");
  EXPECT_EQ(found(layer, request, kHopper), fused);  // of GPUs nothing of the kind is known
  request.likely_sizes = {{"M", 16}, {"N", 3072}, {"K", 768}};
  EXPECT_EQ(found(layer, request), fused);
  request.likely_sizes.erase("M");
  EXPECT_EQ(found(layer, request), fused);
}

TEST(Fusion, RefusesNamesThatTheGraphHasNot) {
  EXPECT_THROW(found(kLayer, {.whole = {{"nobody"}}}), ArgumentError);
  EXPECT_THROW(found(kLayer, {.after = {{"x", {"nobody"}}}}), ArgumentError);
  EXPECT_THROW(found(kLayer, {.in_memory = {"nobody"}}), ArgumentError);
  EXPECT_THROW(found(kLayer, {.after = {{"x", {"y"}}}}), ArgumentError);  // y is made of x
}

// A layer, a turn of the framework and the same layer again; how `w` and `v` lie.
std::string two_layers(const std::string& strides) {
  return "graph g(x: bf16[M, K], w: bf16[K, K]" + strides +
         ", n: bf16[M, K],\n        v: bf16[K, K]" + strides +
         ") {\n  h = matmul x, w\n  y = relu h\n  u = matmul n, v\n  z = relu u\n"
         "  return y, z\n}\n";
}

TEST(Fusion, AKernelIsPlannedOnceForAllItsLayersAndForItsCompiler) {
  plan::Plans plans;
  const Graph graph = Graph::parse(two_layers(""));
  const FusionRequest request{.after = {{"n", {"y"}}}, .in_memory = {"y", "z"}};
  const Fusions fusions = find_fusions(graph, Target::cpu(), {}, request, plans);
  ASSERT_EQ(fusions.kernels.size(), 2U);
  EXPECT_EQ(fusions.kernels[0].graph.str(), fusions.kernels[1].graph.str());
  EXPECT_EQ(plans.num_made(), 1);
  const Program program = compile(fusions.kernels[0].graph, Target::cpu(), {}, plans);
  EXPECT_EQ(program.num_kernels(), 1);
  EXPECT_EQ(plans.num_made(), 1);
}

TEST(Fusion, WhyNotNamesValuesOfTheFramework) {
  const std::string text =
      "graph g(x: f32[M, K], w: f32[K, N], e: i32[G], scale: f32[N], rows: i64[T], v: f32[G, K, N])"
      " {\n  xt = take_rows x, rows\n  up = grouped_matmul xt, v, e\n  y = mul up, scale\n"
      "  return y\n}\n";
  const Fusions fusions = find_fusions(Graph::parse(text), kHopper, {}, {.in_memory = {"y"}});
  ASSERT_FALSE(fusions.left_out.empty());
  EXPECT_EQ(fusions.left_out[0].why,
            "xt is looked up, which takes rows along K of 16-bit elements.");
}

}  // namespace
}  // namespace epifuse
