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
constexpr double kFirstClocks = 900;     // until a tile's first stage is there
constexpr double kLatencyClocks = 1400;  // from asking for a stage until it is there, under load
// Fitted to 10 square products on an H100, each by 52 configs: the choice is within 1 % of the
// best.
constexpr double kStepClocks = 200;   // in which nothing multiplies, around a step's barrier ..
constexpr double kAloneClocks = 400;  // .. where the SM has no other CTA
constexpr double kDeepSlows = 1.15;   // steps of 128 bytes, whose copies come in larger bursts
constexpr double kTileClocks = 1500, kElementClocks = 0.12, kOperationClocks = 0.006;
constexpr double kLaunchUs = 4;

// Of two that overlap.
double longer(double x, double y) { return std::pow(std::pow(x, 4) + std::pow(y, 4), 0.25); }

double step_clocks(const plan::FusedGemm& step, const Config& config, int num_active) {
  const auto bytes = static_cast<double>(size_bytes(step.gemm.a.dtype));
  const double k_in_16_bits = config.step_bytes / 2.0;  // an instruction takes 32 bytes of K
  const double multiply = config.tile_m * config.tile_n * k_in_16_bits / kMultipliesPerClock;
  const double warps = num_threads(config) / 32.0;
  const double read =
      warps * (config.warp_m + config.warp_n) * config.step_bytes / kSharedBytesPerClock;
  const double words = bytes > 2 && step.gemm.b.major != plan::Major::k ? 2 : 1;  // no ldmatrix
  const double busy = longer(multiply, read * words);
  const double waits = kLatencyClocks / std::max(config.stages - 1, 1);
  const bool is_alone = config.ctas == 1;
  const double slows = config.step_bytes > 64 && !is_alone ? kDeepSlows : 1;
  return longer(num_active * busy * slows + (is_alone ? kAloneClocks : kStepClocks), waits);
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
  sizes.m = ceil_div(sizes.m, sizes.batch);
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
  const int num_sms = device.limits.num_sms;
  const GemmSizes sizes = even_groups(given);
  const auto bytes = static_cast<std::int64_t>(size_bytes(step.gemm.a.dtype));
  const auto steps =
      static_cast<double>(ceil_div(std::max<std::int64_t>(sizes.k, 1) * bytes, config.step_bytes));
  const std::int64_t tiles = tile(config, sizes, num_sms).tiles;
  const std::int64_t at_once = std::int64_t{num_sms} * config.ctas;
  const double epilogue = epilogue_clocks(step, config);
  // Of several CTAs an SM some multiply while others are at their epilogues.
  const double hidden = config.ctas > 1 ? 0.5 : 1;
  const auto wave_clocks = [&](int num_active) {
    return steps * step_clocks(step, config, num_active) + num_active * epilogue * hidden +
           kFirstClocks;
  };
  double clocks = static_cast<double>(tiles / at_once) * wave_clocks(config.ctas);
  const std::int64_t left = tiles % at_once;
  if (left > 0) clocks += wave_clocks(static_cast<int>(ceil_div(left, num_sms)));
  const double compute = clocks / kClocksPerUs;
  const double memory = memory_us(step, sizes, config.products, num_sms);
  return longer(compute, memory) + kLaunchUs;
}

}  // namespace epifuse::codegen::sm80
