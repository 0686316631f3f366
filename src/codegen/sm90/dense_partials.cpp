// Where the tiles of a Hopper GEMM leave what they add to its reductions.
#include <utility>

#include "base/ceil_div.h"
#include "codegen/partials.h"
#include "codegen/sm90/dense.h"

namespace epifuse::codegen::sm90 {
namespace {

using plan::FusedGemm;

// Mirrors kernels/sm90/dense.cuh.
constexpr int kWarpRows = 16;

}  // namespace

Partials partials(const FusedGemm& step, const Config& config, const Variant& variant,
                  const Sizes& sizes, const targets::DeviceLimits& limits) {
  ReducedSpace space = reduced_space(step, sizes, variant.swapped);
  if (!space.along_rows) {
    const std::int64_t tile_rows = config.tile_m * config.cluster_m;
    const std::int64_t parts = ceil_div(space.m, tile_rows) * tile_rows / kWarpRows;
    return lay_out_partials(std::move(space.batch), parts, ceil_div(space.m, kWarpRows), space.n);
  }
  std::int64_t batch = 1;
  for (const std::int64_t each : space.batch) batch *= each;
  const Tiling tiling = tile(config, {batch, space.m, space.n, 0}, limits);
  const std::int64_t parts =  // of whole tiles
      tiling.columns * config.cluster_n * ceil_div(result_columns(config), kChunkColumns);
  return lay_out_partials(std::move(space.batch), parts,
                          cut_columns(config) > 0 ? parts : ceil_div(space.n, kChunkColumns),
                          space.m);
}

}  // namespace epifuse::codegen::sm90
