// Which tiles of the cp.async + mma.sync GEMM are worth compiling, and what its model of time
// expects of them.
#include <algorithm>
#include <cmath>

#include "codegen/sm80/gemm.h"

namespace epifuse::codegen::sm80 {
namespace {

struct Shape {
  int tile_m, tile_n, warp_m, warp_n;
};
// Warps of 64 x 64 read least from shared memory for what they multiply; smaller tiles are for
// problems of few tiles.
constexpr Shape kShapes[] = {{128, 128, 64, 64}, {128, 256, 64, 64}, {256, 128, 64, 64},
                             {64, 256, 64, 64},  {256, 64, 64, 64},  {128, 128, 64, 32},
                             {64, 128, 32, 64},  {128, 64, 64, 32},  {64, 64, 32, 32}};

constexpr int kRegistersOfSm = 65536, kReservedBytes = 1024;  // of shared memory, for each CTA

// That a thread takes, whose share of a tile are so many sums: an estimate from above.
int registers(const Config& config) {
  const int sums = config.warp_m * config.warp_n / 32;
  return sums >= 128 ? 255 : sums >= 64 ? 168 : 128;
}

// CTAs that an SM has room for.
int ctas_of_sm(const Config& config, const targets::TargetInfo& target) {
  const int by_memory =
      (target.smem_per_block_bytes + kReservedBytes) / (smem_bytes(config) + kReservedBytes);
  const int by_registers = kRegistersOfSm / (registers(config) * num_threads(config));
  return std::max(std::min(by_memory, by_registers), 1);
}

// The model is in clocks of an SM. Its rates are those of an A100, of which other GPUs are near
// multiples: it ranks configs, and says little about microseconds.
constexpr double kMultipliesPerClock = 1024, kSharedBytesPerClock = 128;
constexpr double kClocksPerUs = 1400, kBytesPerUsOfSm = 14400;
constexpr double kLatencyClocks = 900;  // from asking for a stage until it is there
constexpr double kStepClocks = 40;      // of a barrier
constexpr double kTileClocks = 1500, kElementClocks = 0.12, kOperationClocks = 0.006;
constexpr double kLaunchUs = 4;

double step_clocks(const plan::FusedGemm& step, const Config& config, int num_active) {
  const auto bytes = static_cast<double>(size_bytes(step.gemm.a.dtype));
  const double k_in_16_bits = config.step_bytes / 2.0;  // an instruction takes 32 bytes of K
  const double multiply = config.tile_m * config.tile_n * k_in_16_bits / kMultipliesPerClock;
  const double warps = num_threads(config) / 32.0;
  const double read =
      warps * (config.warp_m + config.warp_n) * config.step_bytes / kSharedBytesPerClock;
  const double words = bytes > 2 && step.gemm.b.major != plan::Major::k ? 2 : 1;  // no ldmatrix
  const double busy = std::pow(std::pow(multiply, 4) + std::pow(read * words, 4), 0.25);
  const double waits = config.stages > 2 ? kLatencyClocks / (config.stages - 1) : kLatencyClocks;
  return std::max(num_active * (busy + kStepClocks), waits);
}

double epilogue_clocks(const plan::FusedGemm& step, const Config& config) {
  const auto& epilogue = step.epilogue;
  const auto operands = static_cast<double>(epilogue.loads.size() + epilogue.stores.size());
  const auto operations = static_cast<double>(epilogue.computes.size());
  const double elements = config.tile_m * result_columns(config);
  return kTileClocks +
         elements * (kElementClocks * (1 + operands) / 2 + kOperationClocks * operations);
}

// Groups as products of equal sizes, which is what can be expected of them.
GemmSizes even_groups(GemmSizes sizes) {
  if (sizes.groups == 0) return sizes;
  sizes.batch = std::max<std::int64_t>(std::min(sizes.groups, sizes.m), 1);
  sizes.m = round_up_div(sizes.m, sizes.batch);
  sizes.groups = 0;
  return sizes;
}

double memory_us(const plan::FusedGemm& step, const GemmSizes& sizes, int products, int num_sms) {
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
  const double each = bytes * (m * k + products * n * k) + full * m * n;
  return static_cast<double>(sizes.batch) * each / (kBytesPerUsOfSm * num_sms);
}

}  // namespace

std::vector<Config> configs(const plan::FusedGemm& step, const targets::TargetInfo& target) {
  constexpr int kFewestStages = 3, kMostStages = 5, kStepBytes[] = {64, 128};
  std::vector<Config> out;
  for (const Shape& shape : kShapes) {
    for (const int step_bytes : kStepBytes) {
      for (int stages = kFewestStages; stages <= kMostStages; ++stages) {
        Config config{shape.tile_m, shape.tile_n, shape.warp_m, shape.warp_n, step_bytes, stages};
        if (smem_bytes(config) > target.smem_per_block_bytes) continue;
        config.ctas = ctas_of_sm(config, target);
        config.products = step.gemm.gating == plan::Gating::none ? 1 : 2;
        config.grouped = step.gemm.is_grouped();
        config.gathers = step.gemm.a.lookup >= 0;
        out.push_back(config);
      }
    }
  }
  return out;
}

std::optional<Config> fitted(const plan::FusedGemm&, const Config& config, const Variant&,
                             const targets::TargetInfo&) {
  return config;
}

Tiling tile(const Config& config, const GemmSizes& sizes) {
  constexpr int kBandRows = 1024;  // that share columns of B in L2
  const std::int64_t columns = round_up_div(sizes.n, result_columns(config));
  // At most: the last tile of every group may be a partial one.
  const std::int64_t rows = sizes.groups > 0
                                ? sizes.m / config.tile_m + std::min(sizes.groups, sizes.m)
                                : round_up_div(sizes.m, config.tile_m);
  return {sizes.batch * rows * columns, std::max(kBandRows / config.tile_m, 1)};
}

double expected_us(const plan::FusedGemm& step, const Config& config, const GemmSizes& given,
                   const targets::DeviceProfile& device) {
  const int num_sms = device.limits.num_sms;
  const GemmSizes sizes = even_groups(given);
  const auto bytes = static_cast<std::int64_t>(size_bytes(step.gemm.a.dtype));
  const auto steps = static_cast<double>(
      round_up_div(std::max<std::int64_t>(sizes.k, 1) * bytes, config.step_bytes));
  const std::int64_t tiles = tile(config, sizes).tiles;
  const std::int64_t at_once = std::int64_t{num_sms} * config.ctas;
  const double epilogue = epilogue_clocks(step, config);
  // Of several CTAs an SM some multiply while others are at their epilogues.
  const double hidden = config.ctas > 1 ? 0.5 : 1;
  const auto wave_clocks = [&](int num_active) {
    return steps * step_clocks(step, config, num_active) + num_active * epilogue * hidden +
           kLatencyClocks;
  };
  double clocks = static_cast<double>(tiles / at_once) * wave_clocks(config.ctas);
  const std::int64_t left = tiles % at_once;
  if (left > 0) clocks += wave_clocks(static_cast<int>(round_up_div(left, num_sms)));
  const double compute = clocks / kClocksPerUs;
  const double memory = memory_us(step, sizes, config.products, num_sms);
  return std::pow(std::pow(compute, 4) + std::pow(memory, 4), 0.25) + kLaunchUs;
}

}  // namespace epifuse::codegen::sm80
