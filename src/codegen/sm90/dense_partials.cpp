// Where the tiles of a Hopper GEMM leave what they add to its reductions.
#include <algorithm>

#include "codegen/sm90/dense.h"
#include "epifuse/tensor.h"

namespace epifuse::codegen::sm90 {
namespace {

using plan::FusedGemm;

// Mirrors kernels/sm90/dense.cuh.
constexpr int kWarpRows = 16;

std::int64_t round_up_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

}  // namespace

Partials partials(const FusedGemm& step, const Config& config, const Variant& variant,
                  const Sizes& sizes, const targets::DeviceLimits& limits) {
  constexpr std::int64_t kInVectors = 4;  // rows that a tail can read 16 bytes at a time
  std::vector<std::int64_t> shape;
  std::int64_t batch = 1;
  for (const Dim& dim : step.gemm.batch) {
    shape.push_back(dim.eval(sizes));
    batch *= shape.back();
  }
  std::int64_t m = step.gemm.m.eval(sizes), n = step.gemm.n.eval(sizes);
  if (variant.swapped) std::swap(m, n);
  const bool rows = std::any_of(step.epilogue.stores.begin(), step.epilogue.stores.end(),
                                [](const auto& store) { return reduces_rows(store.kind); });
  const Tiling tiling = tile(config, {batch, m, n, 0}, limits);
  std::int64_t parts = 0, length = 0;  // of whole tiles
  Partials out;
  if (rows != variant.swapped) {
    parts = tiling.columns * config.cluster_n * round_up_div(result_columns(config), kChunkColumns);
    out.num_parts = cut_columns(config) > 0 ? parts : round_up_div(n, kChunkColumns);
    length = m;
  } else {
    const std::int64_t tile_rows = config.tile_m * config.cluster_m;
    parts = round_up_div(m, tile_rows) * tile_rows / kWarpRows;
    out.num_parts = round_up_div(m, kWarpRows);
    length = n;
  }
  const std::int64_t stride = round_up_div(length, kInVectors) * kInVectors;
  shape.push_back(parts);
  out.layout.strides = TensorView::dense_strides(shape);
  for (std::int64_t& each : out.layout.strides) each *= stride;
  shape.push_back(length);
  out.layout.strides.push_back(1);
  out.layout.shape = std::move(shape);
  out.bytes = static_cast<std::size_t>(batch * parts * stride) * sizeof(float);
  return out;
}

}  // namespace epifuse::codegen::sm90
