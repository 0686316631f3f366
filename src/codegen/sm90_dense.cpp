#include "codegen/sm90_dense.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "codegen/epilogue_cuda.h"
#include "codegen/matrix_view.h"
#include "codegen/source_text.h"
#include "kernels/abi.h"

namespace epifuse::codegen::sm90_dense {
namespace {

using plan::Access;
using plan::Epilogue;
using plan::FusedGemm;
using plan::WhyNot;

// These mirror kernels/sm90_dense.cuh.
constexpr int kThreads = 384;
constexpr int kWarpRows = 16;
constexpr int kSwizzleBytes = 128;
constexpr int kSmallestTile = 64;
// Tiles along m that are walked side by side: enough to share B in L2, few enough to share A.
constexpr int kRaster = 8;

int bytes(DType dtype) { return static_cast<int>(size_bytes(dtype)); }

bool is_wide_float(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f32;
}

std::optional<WhyNot> why_not_load(const plan::Load& load) {
  if (load.batched) {
    return WhyNot{
        "batched_operand",
        fmt::format("{} varies along a batch dim; this family takes 2-D products.", load.name)};
  }
  if (load.access != Access::parameter && !is_wide_float(load.dtype)) {
    return WhyNot{"operand_dtype", fmt::format("{} is {}; the epilogue reads bf16, f16 and f32.",
                                               load.name, epifuse::name(load.dtype))};
  }
  if (load.access == Access::tile && !load.unit_stride) {
    return WhyNot{"tile_not_row_major",
                  fmt::format("{} is not contiguous along its columns; full operands are read by "
                              "rows.",
                              load.name)};
  }
  return std::nullopt;
}

std::optional<WhyNot> why_not_store(const plan::Store& store) {
  if (store.kind != plan::StoreKind::tile) {
    return WhyNot{"reduction",
                  fmt::format("{} is a reduction; this family stores full tiles.", store.name)};
  }
  if (!is_wide_float(store.dtype)) {
    return WhyNot{"result_dtype", fmt::format("{} is {}; the epilogue writes bf16, f16 and f32.",
                                              store.name, epifuse::name(store.dtype))};
  }
  return std::nullopt;
}

std::optional<WhyNot> why_not_operand(const plan::Plan& plan, const plan::Operand& operand,
                                      std::string_view side) {
  const std::string& name = plan.graph[operand.value].name;
  if (operand.dtype != DType::bf16) {
    return WhyNot{"operand_dtype", fmt::format("{} is {}; this family multiplies bf16.", name,
                                               epifuse::name(operand.dtype))};
  }
  if (operand.major != plan::Major::k) {
    return WhyNot{
        fmt::format("{}_not_k_major", side),
        fmt::format("{} is not contiguous along K; this family reads K-major operands.", name)};
  }
  return std::nullopt;
}

// The matrix of an operand with its K dim last, as the kernel reads it: `swap` when the value has
// it first.
std::optional<MatrixView> operand_matrix(const plan::Operand& operand, bool swap,
                                         const Bound& bound) {
  BoundTensor tensor = bound.tensors[static_cast<std::size_t>(operand.value)];
  std::vector<std::int64_t>& shape = tensor.layout.shape;
  std::vector<std::int64_t>& strides = tensor.layout.strides;
  if (swap) {
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    std::swap(strides[shape.size() - 1], strides[shape.size() - 2]);
  }
  return as_matrix(tensor, operand.dtype);
}

std::optional<MatrixView> a_matrix(const plan::GemmDesc& gemm, const Bound& bound) {
  return operand_matrix(gemm.a, gemm.a.transposed, bound);  // [m, k], or [k, m] transposed
}
std::optional<MatrixView> b_matrix(const plan::GemmDesc& gemm, const Bound& bound) {
  return operand_matrix(gemm.b, !gemm.b.transposed, bound);  // [k, n], or [n, k] transposed
}

struct Problem {
  std::int64_t m, n, k;
};

Problem sizes(const plan::GemmDesc& gemm, const Bound& bound) {
  return {gemm.m.eval(bound.sizes), gemm.n.eval(bound.sizes), gemm.k.eval(bound.sizes)};
}

std::int64_t round_up_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

TensorMapRequest map_request(std::size_t offset, const MatrixView& view, DType dtype,
                             int box_rows) {
  TensorMapRequest request;
  request.offset = offset;
  request.data = view.data;
  request.dtype = dtype;
  request.rows = view.rows;
  request.cols = view.cols;
  // A single row has no stride; any legal one will do.
  request.row_stride = view.rows > 1 ? view.row_stride : round_up_div(view.cols, 16) * 16;
  request.box_rows = box_rows;
  request.box_cols = kSwizzleBytes / bytes(dtype);
  return request;
}

std::string header_comment(const plan::Plan& plan, const FusedGemm& step,
                           const GemmConfig& config) {
  const plan::GemmDesc& gemm = step.gemm;
  return comment(
      fmt::format("{}: {}[m, k] x {}[n, k] -> [m, n], bf16 x bf16 -> f32, numerics {}\n{}\n{}",
                  plan.graph.name, plan.graph[gemm.a.value].name, plan.graph[gemm.b.value].name,
                  epifuse::name(plan.numerics), print(config), plan::print(step.epilogue)));
}

}  // namespace

std::optional<WhyNot> why_not(const plan::Plan& plan, const FusedGemm& step,
                              const TargetInfo& target) {
  const plan::GemmDesc& gemm = step.gemm;
  if (!target.has_wgmma || !target.has_tma) {
    return WhyNot{"target", fmt::format("{} has no WGMMA and TMA.", target.name)};
  }
  if (!gemm.batch.empty()) {
    return WhyNot{"batched", "the product is batched; this family takes 2-D products."};
  }
  if (auto no = why_not_operand(plan, gemm.a, "a")) return no;
  if (auto no = why_not_operand(plan, gemm.b, "b")) return no;
  for (const plan::Load& load : step.epilogue.loads) {
    if (auto no = why_not_load(load)) return no;
  }
  for (const plan::Store& store : step.epilogue.stores) {
    if (auto no = why_not_store(store)) return no;
  }
  if (configs(step, target).empty()) {
    return WhyNot{"shared_memory",
                  "the epilogue's full operands and results do not fit in shared "
                  "memory beside three stages."};
  }
  return std::nullopt;
}

KernelSource source(const plan::Plan& plan, const FusedGemm& step, const GemmConfig& config,
                    const GemmVariant&, const TargetInfo& target) {
  constexpr std::string_view kText = R"({header}
#include "kernels/sm90_dense.cuh"

#include "epifuse/wgmma_64x{tile_n}x16_bf16.hpp"
#include "kernels/math.cuh"

namespace epifuse::generated {{

struct Config {{
  static constexpr int kTileM = {tile_m};
  static constexpr int kTileN = {tile_n};
  static constexpr int kStages = {stages};        // of {stage_kib} KiB: A and B, 64 deep in k
  static constexpr int kLoadDepth = {load_depth};     // chunks of full-size loads in flight, a warp
  static constexpr int kStoreDepth = {store_depth};    // chunks of stores in flight, a warp
  static constexpr int kMathColumns = {math_columns};  // computed before any of them is staged
  static constexpr int kSharedBytes = {smem};
  using Wgmma = cute::SM90::GMMA::MMA_64x{tile_n}x16_F32BF16BF16_SS<cute::SM90::GMMA::Major::K,
                                                             cute::SM90::GMMA::Major::K>;
}};

{epilogue}
}}  // namespace epifuse::generated

extern "C" __global__ void __launch_bounds__({threads}, 1)
    epifuse_gemm(const __grid_constant__ epifuse::abi::GemmParams p) {{
  using namespace epifuse;
  sm90::dense<generated::Config, generated::Epilogue>(p);
}}
)";
  KernelSource out;
  out.entry = "epifuse_gemm";
  out.arch = target.name;
  out.text = fmt::format(
      fmt::runtime(kText), fmt::arg("header", header_comment(plan, step, config)),
      fmt::arg("tile_m", config.tile_m), fmt::arg("tile_n", config.tile_n),
      fmt::arg("stages", config.stages), fmt::arg("stage_kib", stage_bytes(config) / 1024),
      fmt::arg("load_depth", config.load_depth), fmt::arg("store_depth", config.store_depth),
      fmt::arg("math_columns", config.math_columns),
      fmt::arg("smem", smem_bytes(step.epilogue, config)), fmt::arg("threads", kThreads),
      fmt::arg("epilogue", epilogue_cuda(step.epilogue, plan.numerics)));
  return out;
}

std::optional<WhyNot> why_not_bound(const plan::Plan& plan, const FusedGemm& step,
                                    const Bound& bound) {
  const Problem problem = sizes(step.gemm, bound);
  if (problem.k == 0) return WhyNot{"empty_k", "K is 0: there is nothing to multiply."};
  constexpr std::int64_t kMostTiles = 1 << 21;  // what the kernel's float division can number
  const std::int64_t tiles =
      round_up_div(problem.m, kSmallestTile) * round_up_div(problem.n, kSmallestTile);
  if (tiles >= kMostTiles) {
    return WhyNot{"too_large", "the result has more tiles than the kernel can number."};
  }
  const plan::Operand &a = step.gemm.a, &b = step.gemm.b;
  const auto no_a = why_not_tma(a_matrix(step.gemm, bound), a.dtype, plan.graph[a.value].name);
  if (no_a) return no_a;
  const auto no_b = why_not_tma(b_matrix(step.gemm, bound), b.dtype, plan.graph[b.value].name);
  if (no_b) return no_b;
  for (const plan::Load& load : step.epilogue.loads) {
    if (load.access == Access::parameter) continue;
    const auto view = as_matrix(bound.tensors[static_cast<std::size_t>(load.value)], load.dtype);
    // Vectors are read element by element and may have any stride, as long as it is one.
    const auto no = why_not_tma(view, load.dtype, load.name);
    if (no && (load.access == Access::tile || !view)) return no;
  }
  for (const plan::Store& store : step.epilogue.stores) {
    const auto view = as_matrix(bound.tensors[static_cast<std::size_t>(store.value)], store.dtype);
    if (auto no = why_not_tma(view, store.dtype, store.name)) return no;
  }
  return std::nullopt;
}

namespace {

void bind_operands(const FusedGemm& step, const GemmConfig& config, const Bound& bound,
                   Launch& out) {
  const auto add = [&](std::size_t offset, const std::optional<MatrixView>& view, DType dtype,
                       int box_rows) {
    EPIFUSE_CHECK(view.has_value(), "operands are checked by why_not_bound");
    out.maps.push_back(map_request(offset, *view, dtype, box_rows));
  };
  add(offsetof(abi::GemmParams, a), a_matrix(step.gemm, bound), step.gemm.a.dtype, config.tile_m);
  add(offsetof(abi::GemmParams, b), b_matrix(step.gemm, bound), step.gemm.b.dtype, config.tile_n);
  std::size_t offset = offsetof(abi::GemmParams, tiles);
  for (int i : loads_of(step.epilogue, Access::tile)) {
    const plan::Load& load = step.epilogue.loads[static_cast<std::size_t>(i)];
    add(offset, as_matrix(bound.tensors[static_cast<std::size_t>(load.value)], load.dtype),
        load.dtype, kWarpRows);
    offset += sizeof(abi::TensorMap);
  }
  offset = offsetof(abi::GemmParams, stores);
  for (const plan::Store& store : step.epilogue.stores) {
    add(offset, as_matrix(bound.tensors[static_cast<std::size_t>(store.value)], store.dtype),
        store.dtype, kWarpRows);
    offset += sizeof(abi::TensorMap);
  }
}

void bind_vectors(const Epilogue& epilogue, const Bound& bound, abi::GemmParams& params) {
  int rows = 0, cols = 0, scalars = 0, parameters = 0;
  for (const plan::Load& load : epilogue.loads) {
    const auto value = static_cast<std::size_t>(load.value);
    if (load.access == Access::parameter) {
      params.parameters[parameters++] = static_cast<float>(bound.scalars[value]);
      continue;
    }
    const auto view = as_matrix(bound.tensors[value], load.dtype);
    EPIFUSE_CHECK(view.has_value(), "operands are checked by why_not_bound");
    if (load.access == Access::row) params.rows[rows++] = {view->data, view->col_stride};
    if (load.access == Access::col) params.cols[cols++] = {view->data, view->row_stride};
    if (load.access == Access::scalar) params.scalars[scalars++] = view->data;
  }
}

}  // namespace

GemmVariant variant(const plan::Plan&, const FusedGemm&, const Bound&) { return {}; }

Launch launch(const plan::Plan&, const FusedGemm& step, const GemmConfig& config,
              const GemmVariant&, const Bound& bound, const DeviceLimits& limits) {
  const Problem problem = sizes(step.gemm, bound);
  Launch out;
  abi::GemmParams params{};
  params.m = static_cast<int>(problem.m);
  params.n = static_cast<int>(problem.n);
  params.k = static_cast<int>(problem.k);
  params.raster = kRaster;
  bind_operands(step, config, bound, out);
  bind_vectors(step.epilogue, bound, params);
  out.params.resize(sizeof params);
  std::memcpy(out.params.data(), &params, sizeof params);
  const std::int64_t tiles =
      round_up_div(problem.m, config.tile_m) * round_up_div(problem.n, config.tile_n);
  out.grid = static_cast<unsigned>(std::min<std::int64_t>(tiles, limits.num_sms));
  out.block = kThreads;
  out.smem_bytes = static_cast<unsigned>(smem_bytes(step.epilogue, config));
  return out;
}

}  // namespace epifuse::codegen::sm90_dense
