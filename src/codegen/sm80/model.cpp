// The cp.async + mma.sync GEMM's model of time: how a config covers a problem, and what that should
// take.
#include <algorithm>
#include <cmath>

#include "codegen/sm80/gemm.h"
#include "codegen/sm80/model_constants.h"

namespace epifuse::codegen::sm80 {
namespace {

// Of two that overlap.
double longer(double x, double y) { return std::pow(std::pow(x, 4) + std::pow(y, 4), 0.25); }

// How many times as long an instruction takes as one of 16-bit operands; both take 32 bytes of K.
double instruction_slows(const plan::FusedGemm& step, const targets::DeviceProfile& device) {
  if (!is_fp8(step.gemm.a.dtype) || device.fp8_macs_per_clock == 0) return 1;
  return 2 * device.macs_per_clock / device.fp8_macs_per_clock;
}

// Of a step, where rows start off the 16-byte boundaries that it is copied by otherwise.
double copy_clocks(const ModelConstants& c, const Config& config, const GemmSizes& sizes) {
  constexpr std::int64_t kWhole = 16, kLeastAsync = 4;
  const auto of = [&](std::int64_t row_bytes, std::int64_t rows, std::int64_t step_bytes) {
    const std::int64_t unit = row_bytes == 0 ? kWhole : row_bytes & -row_bytes;
    if (unit >= kWhole) return 0.0;
    const auto copies = static_cast<double>(rows * step_bytes / unit);
    return copies * (unit >= kLeastAsync ? c.part_clocks : c.element_copy_clocks);
  };
  return of(sizes.row_bytes_a, std::min<std::int64_t>(sizes.m, config.tile_m), config.step_bytes) +
         of(sizes.row_bytes_b, std::min<std::int64_t>(sizes.n, config.tile_n),
            step_bytes_of_b(config));
}

// Of a step whose b is widened. A warp reads, widens and multiplies by turns, which other warps
// hide little of: fitted to seven products of 64 to 256 rows (H200, 2026-11-29,
// docs/gotchas-sm80.md).
double widened_clocks(const ModelConstants& c, const Config& config, double multiply) {
  constexpr double kInstructionsOfPair = 4, kLanes = 128;
  const double step_bytes = config.step_bytes;
  const double warps = num_threads(config) / 32.0;
  const double read =
      warps * (config.warp_m + config.warp_n / 2.0) * step_bytes / c.shared_bytes_per_clock;
  const double pairs = warps * config.warp_n * step_bytes / 4;
  return multiply + read + pairs * kInstructionsOfPair / kLanes;
}

double step_clocks(const ModelConstants& c, const plan::FusedGemm& step, const Config& config,
                   int num_active, double slows_multiply, double copies) {
  const auto bytes = static_cast<double>(size_bytes(step.gemm.a.dtype));
  const double k_in_16_bits = config.step_bytes / 2.0;
  const double multiply =
      slows_multiply * config.tile_m * config.tile_n * k_in_16_bits / c.multiplies_per_clock;
  const double warps = num_threads(config) / 32.0;
  const double read =
      warps * (config.warp_m + config.warp_n) * config.step_bytes / c.shared_bytes_per_clock;
  const double words = bytes > 2 && step.gemm.b.major != plan::Major::k ? 2 : 1;  // no ldmatrix
  const double busy =
      config.widens_b ? widened_clocks(c, config, multiply) : longer(multiply, read * words);
  const double waits = c.latency_clocks / std::max(config.stages - 1, 1);
  const bool is_alone = config.ctas == 1;
  const double slows = config.step_bytes > 64 && is_alone ? c.deep_slows : 1;
  return longer(num_active * (busy * slows + copies) + (is_alone ? c.alone_clocks : c.step_clocks),
                waits);
}

double epilogue_clocks(const ModelConstants& c, const plan::FusedGemm& step, const Config& config) {
  const auto& epilogue = step.epilogue;
  const auto operands = static_cast<double>(epilogue.loads.size() + epilogue.stores.size());
  const auto operations = static_cast<double>(epilogue.computes.size());
  const double elements = config.tile_m * result_columns(config);
  return c.tile_clocks +
         elements * (c.element_clocks * (1 + operands) / 2 + c.operation_clocks * operations);
}

// Of the sums of all CTAs that share tiles, in bytes.
double split_bytes(const Config& config, std::int64_t tiles) {
  if (config.split_k == 1) return 0;
  return 4.0 * config.split_k * config.tile_m * config.tile_n * static_cast<double>(tiles);
}

double memory_us(const ModelConstants& c, const plan::FusedGemm& step, const GemmSizes& sizes,
                 const Config& config, std::int64_t tiles) {
  const auto bytes = static_cast<double>(size_bytes(step.gemm.a.dtype));
  const auto m = static_cast<double>(sizes.m), n = static_cast<double>(sizes.n);
  const auto k = static_cast<double>(sizes.k);
  double full = 0;
  for (const plan::Load& load : step.epilogue.loads) {
    if (load.access == plan::Access::tile) full += static_cast<double>(size_bytes(load.dtype));
  }
  for (const plan::Store& store : step.epilogue.stores) {
    const bool is_full = store.kind == plan::StoreKind::tile;
    if (is_full) full += static_cast<double>(size_bytes(store.dtype));
  }
  const auto bytes_of_b = static_cast<double>(size_bytes(step.gemm.b.dtype));
  const double each = bytes * m * k + bytes_of_b * config.products * n * k + full * m * n;
  // Written and read, where others leave no room in L2.
  const double sums = 2 * std::max(split_bytes(config, tiles) - c.l2_bytes / 2, 0.0);
  return (static_cast<double>(sizes.batch) * each + sums) / c.bytes_per_us;
}

// What the CTA of a tile that comes last does beside the others: it adds their sums.
double join_clocks(const ModelConstants& c, const Config& config) {
  if (config.split_k == 1) return 0;
  return c.join_clocks + split_bytes(config, 1) / c.l2_bytes_per_clock;
}

}  // namespace

Tiling tile(const Config& config, const GemmSizes& sizes, int num_sms) {
  const std::int64_t columns = ceil_div(sizes.n, result_columns(config));
  // At most: the last tile of every group may be a partial one.
  const std::int64_t rows = sizes.groups > 0
                                ? sizes.m / config.tile_m + std::min(sizes.groups, sizes.m)
                                : ceil_div(sizes.m, config.tile_m);
  // Tiles that run at once are to be a square of results, which reads least through L2.
  const double at_once = static_cast<double>(num_sms) * config.ctas;
  const double band = std::sqrt(at_once * config.tile_n / config.tile_m);
  return {sizes.batch * rows * columns, std::max(static_cast<int>(std::lround(band)), 1)};
}

double expected_us(const plan::FusedGemm& step, const Config& config, const GemmSizes& given,
                   const targets::DeviceProfile& device) {
  const ModelConstants c = constants_of(device);
  const int num_sms = device.limits.num_sms;
  const GemmSizes sizes = even_groups(given);
  const auto bytes = static_cast<std::int64_t>(size_bytes(step.gemm.a.dtype));
  const std::int64_t all_steps =
      ceil_div(std::max<std::int64_t>(sizes.k, 1) * bytes, config.step_bytes);
  const auto steps = static_cast<double>(ceil_div(all_steps, config.split_k));
  const std::int64_t tiles = tile(config, sizes, num_sms).tiles, ctas = tiles * config.split_k;
  const std::int64_t at_once = std::int64_t{num_sms} * config.ctas;
  const double epilogue = epilogue_clocks(c, step, config);
  const double slows_multiply = instruction_slows(step, device),
               copies = copy_clocks(c, config, sizes);
  // Of several CTAs an SM some multiply while others are at their epilogues.
  const double hidden = config.ctas > 1 ? 0.5 : 1;
  const bool is_split = config.split_k > 1;
  const double leave =
      is_split ? split_bytes(config, 1) / config.split_k / c.l2_bytes_per_clock : epilogue;
  const auto wave_clocks = [&](int num_active) {
    return steps * step_clocks(c, step, config, num_active, slows_multiply, copies) +
           num_active * leave * hidden + c.first_clocks;
  };
  double clocks = static_cast<double>(ctas / at_once) * wave_clocks(config.ctas);
  const std::int64_t left = ctas % at_once;
  if (left > 0) clocks += wave_clocks(static_cast<int>(ceil_div(left, num_sms)));
  if (is_split) {  // those that come last are mostly of the last wave
    clocks += static_cast<double>(ceil_div(tiles, num_sms)) * (join_clocks(c, config) + epilogue);
  }
  if (is_persistent(config)) clocks *= c.persistent_slows;
  return longer(clocks / c.clocks_per_us, memory_us(c, step, sizes, config, tiles)) + c.launch_us +
         (is_split ? c.clear_us : 0);
}

}  // namespace epifuse::codegen::sm80
