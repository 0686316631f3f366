// What `epifuse calibrate` measures: graphs, and the sizes of their products.
#pragma once

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

// Far apart first, so that a short budget sees all kinds of sizes.
inline constexpr codegen::GemmSizes kProducts[] = {
    {1, 4096, 4096, 4096},  {1, 16, 4096, 4096},    {1, 512, 768, 3072},   {1, 8192, 8192, 1024},
    {1, 1024, 4096, 14336}, {1, 128, 14336, 4096},  {1, 2048, 1024, 1024}, {1, 6304, 1024, 4096},
    {1, 64, 768, 768},      {1, 4096, 14336, 4096}, {1, 256, 4096, 1024},  {1, 1576, 3072, 768},
    {1, 16, 4096, 14336},   {1, 8192, 4096, 4096},  {1, 512, 8192, 8192},  {1, 2048, 2048, 512},
    {1, 128, 2048, 2048},   {1, 16384, 1024, 1024}, {1, 1024, 1024, 8192}, {1, 4096, 8192, 512},
    {1, 64, 8192, 1024},    {1, 2048, 6144, 6144},  {1, 256, 768, 3072},   {1, 1320, 4944, 2048},
    {1, 1, 4096, 4096},     {1, 8192, 1024, 8192},  {1, 512, 3072, 768},   {1, 3072, 3072, 3072},
    {1, 128, 4096, 14336},  {1, 4096, 3072, 1024},  {1, 64, 4096, 4096},   {1, 12288, 4096, 1024},
    {1, 1024, 18944, 3584}, {1, 256, 2048, 2048},   {1, 6304, 3072, 1024}, {1, 2048, 4608, 3584}};

}  // namespace epifuse::cli
