// What `epifuse calibrate` measures: graphs, and the sizes of their products.
#pragma once

#include <string_view>
#include <vector>

#include "codegen/gemm_sizes.h"

namespace epifuse::cli {

inline constexpr const char* kTwo =
    "graph two(x: f32[N], z: f32[N]) {\n  y = add x, z\n  return y\n}\n";
inline constexpr const char* kBare =
    "graph bare(x: bf16[M, K], w: bf16[N, K]) {\n  y = matmul x, w^T\n  return y\n}\n";
// What our kernels are timed with: little work, the work of functions, and a full operand.
inline constexpr const char* kScaled =
    "graph scaled(x: bf16[M, K], w: bf16[N, K]) {\n"
    "  h = matmul x, w^T\n  y = mul h, 0.125\n  return y\n}\n";
inline constexpr const char* kGelu =
    "graph gelu(x: bf16[M, K], w: bf16[N, K], b: bf16[N]) {\n"
    "  h = matmul x, w^T\n  t = add h, b\n  y = gelu_erf t\n  return y\n}\n";
inline constexpr const char* kResidual =
    "graph residual(x: bf16[M, K], w: bf16[N, K], b: bf16[N], r: bf16[M, N]) {\n"
    "  h = matmul x, w^T\n  t = add h, b\n  y = add t, r\n  return y\n}\n";
// Little work on products of other layouts.
inline constexpr const char* kScaledNn =
    "graph scaled_nn(x: bf16[M, K], w: bf16[K, N]) {\n"
    "  h = matmul x, w\n  y = mul h, 0.125\n  return y\n}\n";
inline constexpr const char* kScaledXm =
    "graph scaled_xm(x: bf16[K, M], w: bf16[N, K]) {\n"
    "  t = transpose x [1, 0]\n  h = matmul t, w^T\n  y = mul h, 0.125\n  return y\n}\n";
inline constexpr const char* kScaledXmNn =
    "graph scaled_xm_nn(x: bf16[K, M], w: bf16[K, N]) {\n"
    "  t = transpose x [1, 0]\n  h = matmul t, w\n  y = mul h, 0.125\n  return y\n}\n";
// Little work on a product of 8-bit elements.
inline constexpr const char* kScaledFp8 =
    "graph scaled_fp8(x: e4m3[M, K], w: e4m3[N, K]) {\n"
    "  h = matmul x, w^T\n  t = mul h, 0.125\n  y = cast t -> bf16\n  return y\n}\n";

// A product, and the graphs that it is measured with.
struct Probe {
  codegen::GemmSizes sizes;
  bool is_usual = true;  // its operands lie as kBare has them
  std::vector<const char*> texts;
};

// Sizes of known models, every fourth with 8-bit elements too, far apart first, so that a short
// budget sees all kinds of sizes; from the tenth on by turns with random ones of random layouts,
// whose rows begin at 16-byte boundaries.
std::vector<Probe> probes();

}  // namespace epifuse::cli
