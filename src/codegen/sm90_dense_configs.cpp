// Which tiles the Hopper GEMM may use for an epilogue, and which for a problem size.
#include <algorithm>

#include "codegen/epilogue_cuda.h"
#include "codegen/sm90_dense.h"

namespace epifuse::codegen::sm90_dense {
namespace {

using plan::Access;
using plan::Epilogue;
using plan::FusedGemm;

// These mirror kernels/sm90_dense.cuh and kernels/sm90_epilogue.cuh.
constexpr int kTileK = 64;
constexpr int kSlotBytes = 2048;
constexpr int kConsumers = 2;
constexpr int kWarps = 8;
constexpr int kBarrierBytes = 8;

constexpr int kMostStages = 6;
constexpr int kFewestStages = 3;

// The tiles, and their time per output element against the best: smaller ones move more bytes per
// flop, through shared memory and at the power limit.
struct TileShape {
  int m, n;
  double time_per_element;
};
constexpr TileShape kTiles[] = {{128, 192, 1.0}, {128, 128, 1.03}, {64, 128, 1.4}};
int bytes(DType dtype) { return static_cast<int>(size_bytes(dtype)); }

int load_slots(const Epilogue& epilogue) {
  int slots = 0;
  for (int i : loads_of(epilogue, Access::tile)) {
    slots += bytes(epilogue.loads[static_cast<std::size_t>(i)].dtype) / 2;
  }
  return slots;
}

int store_slots(const Epilogue& epilogue) {
  int slots = 0;
  for (const plan::Store& store : epilogue.stores) slots += bytes(store.dtype) / 2;
  return slots;
}

// Shared memory beside the stages and their barriers.
int fixed_bytes(const Epilogue& epilogue, const GemmConfig& config) {
  const int rows = static_cast<int>(loads_of(epilogue, Access::row).size());
  const int loads = load_slots(epilogue);
  return kWarps * kSlotBytes *
             (config.store_depth * store_slots(epilogue) + config.load_depth * loads) +
         kConsumers * rows * config.tile_n * 4 +
         (loads > 0 ? kWarps * config.load_depth * kBarrierBytes : 0);
}

// What of an epilogue stands in registers beside the accumulators.
struct Pressure {
  int slots = 0;         // of full-size loads and stores
  int cost = 0;          // instructions an element
  bool rounds = false;   // keeps roundings, and with them more values
  bool vectors = false;  // more than the one row vector of a bias
};

Pressure pressure(const Epilogue& epilogue) {
  Pressure out;
  for (const plan::Compute& compute : epilogue.computes) {
    out.rounds = out.rounds || compute.op == ir::Op::cast;
    out.cost += compute.op == ir::Op::cast ? 2 : ir::info(compute.op).cost;
  }
  out.slots = load_slots(epilogue) + store_slots(epilogue);
  const std::size_t num_rows = loads_of(epilogue, Access::row).size();
  const std::size_t num_tiles = loads_of(epilogue, Access::tile).size();
  out.vectors = num_rows > 1 || num_rows + num_tiles < epilogue.loads.size();
  return out;
}

// Columns computed at once: many hide latencies, but their temporaries stand beside up to 192
// accumulators. These limits, and those of the wide tile, are what compiles without spills over the
// corpus (2026-11-21).
int math_columns(const Pressure& p) {
  if (p.slots == 1 && p.cost <= 9 && !p.vectors && !p.rounds) return 64;
  if (p.slots > 4 || p.cost > (p.slots == 1 ? 32 : 16)) return 16;
  return 32;
}

bool takes_wide_tile(const Pressure& p) {
  if (p.slots == 2) return p.cost <= 20 && !p.vectors;
  return p.slots < 2 && p.cost <= (p.rounds ? 30 : 40);
}

double time_per_element(const GemmConfig& config) {
  for (const TileShape& tile : kTiles) {
    if (tile.m == config.tile_m && tile.n == config.tile_n) return tile.time_per_element;
  }
  return 1.0;
}

std::int64_t round_up_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

}  // namespace

int stage_bytes(const GemmConfig& config) {
  return (config.tile_m + config.tile_n) * kTileK * 2 + 2 * kBarrierBytes;
}

int smem_bytes(const Epilogue& epilogue, const GemmConfig& config) {
  return config.stages * stage_bytes(config) + fixed_bytes(epilogue, config);
}

std::vector<GemmConfig> configs(const FusedGemm& step, const TargetInfo& target) {
  const int loads = load_slots(step.epilogue), stores = store_slots(step.epilogue);
  const Pressure registers = pressure(step.epilogue);
  std::vector<GemmConfig> out;
  for (const TileShape& tile : kTiles) {
    if (tile.n > 128 && !takes_wide_tile(registers)) continue;
    GemmConfig config{
        tile.m, tile.n, 0, loads == 1 ? 2 : 1, stores == 1 ? 2 : 1, math_columns(registers)};
    const int room = target.smem_per_block_bytes - fixed_bytes(step.epilogue, config);
    config.stages = std::min(room / stage_bytes(config), kMostStages);
    if (config.stages >= kFewestStages) out.push_back(config);
  }
  return out;
}

double expected_us(const FusedGemm&, const GemmConfig& config, const GemmSizes& sizes,
                   const DeviceLimits& limits) {
  // Time of the waves: their number times that of a tile, at 2048 multiplications a clock of 1.6
  // GHz.
  const std::int64_t tiles =
      sizes.batch * round_up_div(sizes.m, config.tile_m) * round_up_div(sizes.n, config.tile_n);
  const auto waves = static_cast<double>(round_up_div(tiles, limits.num_sms));
  return waves * config.tile_m * config.tile_n * time_per_element(config) *
         static_cast<double>(sizes.k) / (2048 * 1.6e3);
}

}  // namespace epifuse::codegen::sm90_dense
