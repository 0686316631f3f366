// Products of one A in one launch of the Hopper GEMM: by the kernels for few rows, or by tiles.
#include "codegen/side_by_side.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "base/ceil_div.h"
#include "base/check.h"
#include "codegen/epilogue_layout.h"
#include "codegen/family_row.h"
#include "codegen/sm90/dense.h"
#include "codegen/sm90/few_rows.h"
#include "codegen/sm90/model_constants.h"
#include "kernels/abi.h"

namespace epifuse::codegen::sm90 {
namespace {

using plan::FusedGemm, plan::Plan, targets::DeviceLimits, targets::DeviceProfile,
    targets::TargetInfo;

// Products of as many rows read their weights once.
constexpr int kMostRowsOfTile = kBlockRows;

// Beside those of one product: what was ahead of all others at queries, keys and values of 64 rows.
constexpr TileShape kShapes[] = {{64, 48, false, false, 1, 1, 2}, {64, 80, false, false, 1, 1, 2}};

// Whether what is the kernel's own in a block of parameters is the same of such steps: they have no
// batch, and nothing is moved by hand or looked up.
bool suits_tiles(const FusedGemm& step) {
  const EpilogueLayout layout(step.epilogue);
  const auto is_indexed = [](const Place& place) { return place.is_indexed; };
  return !is_batched(step.gemm) && step.gemm.a.lookup < 0 && !step.epilogue.has_blocks() &&
         pressure(step.epilogue).by_hand == 0 && std::ranges::none_of(layout.loads(), is_indexed) &&
         std::ranges::none_of(layout.stores(), is_indexed);
}

constexpr int kMostParts = 4;  // of K; more were not measured

// Whether the address of a tile's part, beside what one product has, makes a kernel spill: at any
// number of columns that are computed at once, ..
bool spills(const Pressure& p, const Config& config) {
  constexpr int kManyAccumulators = 128;
  return (config.scaling == Scaling::by_column && config.tile_m > 128) ||
         (accumulators(config) > kManyAccumulators && p.many_vectors);
}

// .. and at the usual one.
bool is_tight(const FusedGemm& step, const Pressure& p, const Config& config) {
  constexpr int kFewAccumulators = 64, kCostOfBias = 4;
  const bool has_more = p.vectors || p.cost > kCostOfBias || step.gemm.promoted;
  return accumulators(config) > kFewAccumulators && has_more;
}

// Those of one product whose tiles all have one width.
std::vector<Config> tile_configs(const FusedGemm& step, const TargetInfo& target) {
  const FusedGemm as_is = as_compiled(step, {});
  if (!suits_tiles(as_is)) return {};
  const Pressure p = pressure(as_is.epilogue);
  std::vector<Config> out = configs(step, target);
  std::erase_if(out, [&](const Config& config) {
    return config.two_widths || config.swapped || config.split_k > kMostParts || spills(p, config);
  });
  for (Config& config : out) {
    config.side_by_side = true;
    if (is_tight(step, p, config)) config = leaner(config).value_or(config);
  }
  return out;
}

// Of tiles that have all rows. What `one_row_us` expects is not said of products with block scales.
std::vector<Config> one_row_configs(const FusedGemm& step, const TargetInfo& target) {
  if (step.gemm.is_scaled()) return {};
  std::vector<Config> out = tile_configs(step, target);
  if (out.empty()) return out;
  std::erase_if(out, [](const Config& config) {
    return config.tile_m != kMostRowsOfTile || config.cluster_m * config.cluster_n > 1;
  });
  for (Config& config : configs_of(kShapes, step, target)) {
    config.side_by_side = true;
    out.push_back(config);
  }
  return out;
}

// Of a part in whole tiles, or clusters of them.
std::int64_t in_tiles(const Config& config, std::int64_t columns) {
  const std::int64_t of_tile = result_columns(config) * config.cluster_n;
  return ceil_div(columns, of_tile) * of_tile;
}

// All parts as one product, whose columns are those of their tiles.
GemmSizes all_in_tiles(const Config& config, std::span<const GemmSizes> parts) {
  GemmSizes all = parts.front();
  all.n = 0;
  for (const GemmSizes& part : parts) all.n += in_tiles(config, part.n);
  return all;
}

// With few rows a CTA's steps of K and, beside them, memory are all there is (2026-11-26, H200,
// docs/gotchas-hopper.md): the model of one product knows neither a step's least time nor idle SMs.
double one_row_us(const FusedGemm& step, const Config& config, std::span<const GemmSizes> parts,
                  const DeviceProfile& device) {
  constexpr double kStepUs = 0.15, kBytesPerUs = 1.3e5;     // of a CTA
  constexpr double kShareUs = 0.2, kShareColumnUs = 0.008;  // of a tile whose K is split
  constexpr double kIdleSlows = 0.15;                       // memory, for the SMs without a CTA
  constexpr double kStepBytes = 128, kResultBytes = 2;
  const ModelConstants c = constants_of(device);
  const GemmSizes all = all_in_tiles(config, parts);
  const Tiling tiling = tile(config, all, device.limits);
  const int at_once = std::max(clusters_at_once(cluster_size(config), device.limits), 1);
  const auto waves = static_cast<double>(ceil_div(tiling.tiles, at_once));
  const std::int64_t depth = operand_format(step.gemm.a.dtype).step_k() * config.split_k;
  const auto steps = static_cast<double>(ceil_div(all.k, depth));
  const double share = config.split_k > 1 ? kShareUs + kShareColumnUs * config.tile_n : 0;
  const double step_us =
      std::max(kStepUs, kStepBytes * (config.tile_m + config.tile_n) / kBytesPerUs);
  double bytes = static_cast<double>(all.m * all.k) * size_bytes(step.gemm.a.dtype);
  for (const GemmSizes& part : parts) {
    bytes += static_cast<double>(part.n * part.k) * size_bytes(step.gemm.b.dtype) +
             static_cast<double>(part.m * part.n) * kResultBytes;
  }
  const double busy = std::min(1.0, static_cast<double>(tiling.num_ctas) / device.limits.num_sms);
  const double memory = bytes / c.bytes_per_us * (1 + kIdleSlows * (1 - busy));
  const double both = overlapped({waves * steps * step_us, memory}, c.overlap);
  return c.launch_us + both + waves * share + std::min(bytes, c.dirty_bytes) / c.bytes_per_us;
}

Launch tiles_launch(std::span<const Launch> parts, const GemmConfig& given,
                    const DeviceLimits& limits) {
  const auto& config = given.as<Config>();
  EPIFUSE_CHECK(!parts.empty() && parts.size() <= abi::kMostSideBySide, "as many as there is room");
  abi::GemmSideBySideParams params{};
  Launch out = parts.front();
  out.maps.clear();
  GemmSizes all{};
  for (std::size_t i = 0; i < abi::kMostSideBySide; ++i) {
    if (i < parts.size()) {
      abi::GemmParams& part = params.parts[i];
      EPIFUSE_CHECK(parts[i].params.size() == sizeof part, "parts are a block each");
      std::memcpy(&part, parts[i].params.data(), sizeof part);
      all = {1, part.m, all.n + in_tiles(config, part.n), part.k};
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

KernelSource tiles_source(const Plan& plan, const FusedGemm& step, const GemmConfig& config,
                          const TargetInfo& target) {
  return source(plan, step, config.as<Config>(), {}, target);
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
       return opaque(one_row_configs(step, target));
     },
     [](const FusedGemm& step, const GemmConfig& config, std::span<const GemmSizes> parts,
        const DeviceProfile& device) {
       return one_row_us(step, config.as<Config>(), parts, device);
     },
     tiles_source, tiles_launch},
    {std::numeric_limits<std::int64_t>::max(),
     [](const FusedGemm& step, const TargetInfo& target) {
       return opaque(tile_configs(step, target));
     },
     [](const FusedGemm& step, const GemmConfig& config, std::span<const GemmSizes> parts,
        const DeviceProfile& device) {
       const auto& own = config.as<Config>();
       return expected_us(step, own, all_in_tiles(own, parts), device);
     },
     tiles_source, tiles_launch}};

constexpr SideBySideFunctions kSideBySide{abi::kMostSideBySide, kKinds};

}  // namespace

const SideBySideFunctions& side_by_side() { return kSideBySide; }

}  // namespace epifuse::codegen::sm90
