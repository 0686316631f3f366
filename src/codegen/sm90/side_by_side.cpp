// Products of one A in one launch of the Hopper GEMM: by the kernels for few rows, or by tiles that
// have all rows.
#include "codegen/side_by_side.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/ceil_div.h"
#include "base/check.h"
#include "codegen/epilogue_layout.h"
#include "codegen/family_row.h"
#include "codegen/sm90/dense.h"
#include "codegen/sm90/few_rows.h"
#include "kernels/abi.h"

namespace epifuse::codegen::sm90 {
namespace {

using plan::FusedGemm, plan::Plan, targets::DeviceLimits, targets::DeviceProfile,
    targets::TargetInfo;

// Products of as many rows read their weights once.
constexpr int kMostRowsOfTile = 64;

// Beside those of one product: clusters whose CTAs share A, or K.
constexpr TileShape kShapes[] = {
    {64, 32, false, false, 1, 2, 1}, {64, 32, false, false, 1, 4, 1},
    {64, 48, false, false, 1, 2, 1}, {64, 48, false, false, 1, 4, 1},
    {64, 64, false, false, 1, 2, 1}, {64, 64, false, false, 1, 4, 1},
    {64, 96, false, false, 1, 2, 1}, {64, 48, false, false, 1, 1, 2},
    {64, 80, false, false, 1, 1, 2}, {64, 64, false, false, 1, 1, 4},
    {64, 96, false, false, 1, 1, 4}, {64, 128, false, false, 1, 1, 4},
};

// Whether what is the kernel's own in a block of parameters is the same of such steps: they have no
// batch, and nothing is moved by hand or looked up.
bool suits_tiles(const FusedGemm& step) {
  const EpilogueLayout layout(step.epilogue);
  const auto is_indexed = [](const Place& place) { return place.is_indexed; };
  return !is_batched(step.gemm) && step.gemm.a.lookup < 0 && !step.epilogue.has_blocks() &&
         pressure(step.epilogue).by_hand == 0 && std::ranges::none_of(layout.loads(), is_indexed) &&
         std::ranges::none_of(layout.stores(), is_indexed);
}

std::vector<Config> tile_configs(const FusedGemm& step, const TargetInfo& target) {
  if (!suits_tiles(as_compiled(step, {}))) return {};
  std::vector<Config> out = configs(step, target);
  std::erase_if(out, [](const Config& config) {
    return config.tile_m != kMostRowsOfTile || config.two_widths ||
           config.cluster_m * config.cluster_n > 1;
  });
  std::ranges::copy(configs_of(kShapes, step, target), std::back_inserter(out));
  for (Config& config : out) config.side_by_side = true;
  return out;
}

// Those of all tiles of a cluster.
std::int64_t columns_of_cluster(const Config& config) {
  return std::int64_t{result_columns(config)} * config.cluster_n;
}

// As of one product whose columns end with tiles where those of a part do. Clusters that split K
// took 1.08 to 1.19 times as long beside the others as the model has it, where weights come from
// memory (2026-11-25, H100, 64 rows of `small`).
double tiles_us(const FusedGemm& step, const Config& config, std::span<const GemmSizes> parts,
                const DeviceProfile& device) {
  GemmSizes all = parts.front();
  all.n = 0;
  const std::int64_t columns = columns_of_cluster(config);
  for (const GemmSizes& part : parts) all.n += ceil_div(part.n, columns) * columns;
  constexpr double kSplitSlows = 1.12;
  return expected_us(step, config, all, device) * (config.split_k > 1 ? kSplitSlows : 1);
}

Launch tiles_launch(std::span<const Launch> parts, const Config& config,
                    const DeviceLimits& limits) {
  EPIFUSE_CHECK(!parts.empty() && parts.size() <= abi::kMostSideBySide, "as many as there is room");
  abi::GemmSideBySideParams params{};
  Launch out = parts.front();
  out.maps.clear();
  const std::int64_t columns = columns_of_cluster(config);
  GemmSizes all{};
  for (std::size_t i = 0; i < abi::kMostSideBySide; ++i) {
    if (i < parts.size()) {
      abi::GemmParams& part = params.parts[i];
      EPIFUSE_CHECK(parts[i].params.size() == sizeof part, "parts are a block each");
      std::memcpy(&part, parts[i].params.data(), sizeof part);
      all = {1, part.m, all.n + ceil_div(part.n, columns) * columns, part.k};
      for (TensorMapRequest map : parts[i].maps) {
        map.offset += offsetof(abi::GemmSideBySideParams, parts) + i * sizeof part;
        out.maps.push_back(std::move(map));
      }
    }
    params.ends[i] = static_cast<int>(tile(config, all, limits).tiles);
  }
  const Tiling tiling = tile(config, all, limits);
  for (abi::GemmParams& part : params.parts) part.lets_next_start = tiling.is_one_wave;
  out.grid = static_cast<unsigned>(tiling.num_ctas);
  set_params(out, &params, sizeof params);
  return out;
}

double few_rows_of_all_us(const FusedGemm& step, const Config& config,
                          std::span<const GemmSizes> parts, const DeviceProfile& device) {
  GemmSizes all = parts.front();
  all.n = 0;
  for (const GemmSizes& part : parts) all.n += part.n;
  return few_rows_us(step, config, all, device);
}

constexpr SideBySideKind kKinds[] = {
    {kMostFewRows,
     [](const FusedGemm& step, const TargetInfo&) { return opaque(few_rows_configs(step)); },
     [](const FusedGemm& step, const GemmConfig& config, std::span<const GemmSizes> parts,
        const DeviceProfile& device) {
       return few_rows_of_all_us(step, config.as<Config>(), parts, device);
     },
     [](const Plan& plan, const FusedGemm& step, const GemmConfig& config,
        const TargetInfo& target) {
       return few_rows_side_by_side_source(plan, step, config.as<Config>(), target);
     },
     [](std::span<const Launch> parts, const GemmConfig&, const DeviceLimits&) {
       return few_rows_side_by_side_launch(parts);
     }},
    {kMostRowsOfTile,
     [](const FusedGemm& step, const TargetInfo& target) {
       return opaque(tile_configs(step, target));
     },
     [](const FusedGemm& step, const GemmConfig& config, std::span<const GemmSizes> parts,
        const DeviceProfile& device) { return tiles_us(step, config.as<Config>(), parts, device); },
     [](const Plan& plan, const FusedGemm& step, const GemmConfig& config,
        const TargetInfo& target) { return source(plan, step, config.as<Config>(), {}, target); },
     [](std::span<const Launch> parts, const GemmConfig& config, const DeviceLimits& limits) {
       return tiles_launch(parts, config.as<Config>(), limits);
     }}};

constexpr SideBySideFunctions kSideBySide{abi::kMostSideBySide, kKinds};

}  // namespace

const SideBySideFunctions& side_by_side() { return kSideBySide; }

}  // namespace epifuse::codegen::sm90
