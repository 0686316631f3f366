// Graphs whose launches and expected times are tested.
#pragma once

namespace epifuse::codegen {

inline constexpr const char* kResidual =
    "graph g(x: bf16[M, K], w: bf16[N, K], r: bf16[M, N], b: bf16[N]) {\n"
    "  h = matmul x, w^T\n  h1 = add h, b\n  y = add h1, r\n  return y\n}\n";
inline constexpr const char* kMixed8Bits =
    "graph g(x: e4m3[M, K], w: e5m2[N, K], s: f32[M, 1]) {\n"
    "  h = matmul x, w^T\n  t = mul h, s\n  y = cast t -> bf16\n  return y\n}\n";

}  // namespace epifuse::codegen
