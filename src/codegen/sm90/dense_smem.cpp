// Shared memory of the Hopper GEMM: the twin of kernels/sm90/layout.cuh and staging.cuh.
#include <algorithm>

#include "codegen/sm90/dense.h"

namespace epifuse::codegen::sm90 {
namespace {

constexpr int kSlotBytes = 8192;
constexpr int kBarrierBytes = 8;
constexpr int kTileRingBytes = 8 * (32 + 2 * kBarrierBytes);  // of kernels/sm90/announce.cuh

// In place only while all of them go by TMA.
bool stages_in_place(const Config& config, const Variant& variant) {
  return config.in_place && variant.non_tma_loads == 0 && variant.non_tma_stores == 0;
}

// Of operands whose rows are put in order, or that are widened.
int staging_bytes(const Config& config, const Variant& variant) {
  if (config.widens_b) {
    return abi::kNarrowStagings * (config.tile_n * kStepBytes / 2 + 2 * kBarrierBytes);
  }
  if (!variant.is_misaligned()) return 0;
  const int rows =
      (variant.misaligned_a ? config.tile_m : 0) + (variant.misaligned_b ? config.tile_n : 0);
  return abi::kStagings * (rows * abi::kStagedRowBytes + 2 * kBarrierBytes);
}

// Of block scales: ScaleRing in kernels/sm90/scale_ring.cuh.
int scale_bytes(const Config& config) {
  constexpr int kRowsAhead = 512, kFewestSlots = 4;
  if (config.scaling != Scaling::by_column) return 0;
  const int slots = std::max(kRowsAhead / config.tile_m, kFewestSlots);
  return slots * ((config.tile_m + config.tile_n) * 4 + 2 * kBarrierBytes);
}

// Of maxima of squares: SquareMaxima in kernels/sm90/square_maxima.cuh.
int square_bytes(const EpilogueLayout& layout, const Config& config) {
  constexpr int kTurns = 2, kSquares = 2, kParts = ir::kSquareRows / 16;
  const int across = result_columns(config) / ir::kBlockColumns;
  return kTurns * kSquares * kParts * across * layout.square_maxima() * 4;
}

bool is_staged(const Place& place, unsigned plain) {
  return place.staging == Staging::chunks && (plain >> place.index & 1) == 0;
}

int slots(const std::vector<Place>& places, unsigned plain) {
  int slots = 0;
  for (const Place& place : places) slots += is_staged(place, plain) ? slots_of(place.bytes) : 0;
  return slots;
}

// Of a consumer, what is kept of copied results for the next chunk: kernels/sm90/sector_copies.cuh.
int carry_bytes(const EpilogueLayout& layout, const Config& config, const Variant& variant) {
  constexpr int kSectorBytes = 32;
  if (!writes_sectors(layout, config, variant)) return 0;
  const auto copied = std::ranges::count_if(layout.stores(), [&](const Place& place) {
    return is_staged(place, ~variant.copied_stores);
  });
  return static_cast<int>(copied) * kBlockRows * kSectorBytes;
}

}  // namespace

int load_slots(const EpilogueLayout& layout, unsigned plain) {
  return slots(layout.loads(), plain);
}

int store_slots(const EpilogueLayout& layout, unsigned plain) {
  return slots(layout.stores(), plain);
}

int fixed_bytes(const EpilogueLayout& layout, const Config& config, const Variant& variant) {
  const int rows = layout.size(List::rows);
  const int loads =
      loads_in_ring(layout, config, variant) ? 0 : load_slots(layout, variant.non_tma_loads);
  const int stores =
      stages_in_place(config, variant) ? 0 : store_slots(layout, variant.non_tma_stores);
  const int load_places = loads > 0 ? config.load_depth : 0;
  const int store_places = stores > 0 ? config.store_depth : 0;
  // Loads have one barrier each, stores two; where there are no stores, loads have their second.
  const int barriers = load_places + (store_places > 0 ? 2 * store_places : load_places);
  const int copies = store_slots(layout, ~variant.copied_stores);
  const int groups = consumers(config);
  const int bytes =
      groups * kSlotBytes * (store_places * stores + copies) +
      groups * carry_bytes(layout, config, variant) +
      groups * (kSlotBytes * load_places * loads + rows * result_columns(config) * 4 +
                barriers * kBarrierBytes) +
      staging_bytes(config, variant) + scale_bytes(config) + square_bytes(layout, config) +
      (loads > 0 && !has_movers(config, variant) && !config.gathers ? kBarrierBytes : 0);
  return config.grouped ? (bytes + 15) / 16 * 16 + kTileRingBytes : bytes;
}

bool writes_sectors(const EpilogueLayout& layout, const Config& config, const Variant& variant) {
  constexpr int kMostAccumulators = 128;  // more leave too few registers, as maxima do
  return variant.whole_sectors && config.split_k == 1 && result_columns(config) > kChunkColumns &&
         !layout.takes_maxima() && accumulators(config) <= kMostAccumulators;
}

bool loads_in_ring(const EpilogueLayout& layout, const Config& config, const Variant& variant) {
  const int slots = load_slots(layout, variant.non_tma_loads);
  if (slots == 0 || !config.cooperative || config.split_k > 1 || has_movers(config, variant)) {
    return false;
  }
  if (config.gathers || layout.takes_maxima()) return false;
  constexpr int kRowsOfSlot = kSlotBytes / kSlotRowBytes;
  return config.tile_m / kRowsOfSlot / slots + config.tile_n / kRowsOfSlot / slots >=
         consumers(config);
}

int fewest_loads(const EpilogueLayout& layout) {
  return layout.takes_maxima() ? ir::kBlockColumns / kChunkColumns : 1;
}

int chunks_of_tile(int tile_m, int columns) {
  return tile_m / kBlockRows * ((columns + kChunkColumns - 1) / kChunkColumns);
}

int chunks_of_tile(const Config& config) {
  return chunks_of_tile(config.tile_m, result_columns(config));
}

int cut_columns(const Config& config) {
  return config.two_widths ? kChunkColumns - kNarrower : result_columns(config) % kChunkColumns;
}

int stage_bytes(const Config& config) {
  return (config.tile_m + config.tile_n) * kStepBytes + 2 * kBarrierBytes;
}

int smem_bytes(const EpilogueLayout& layout, const Config& config, const Variant& variant) {
  return config.stages * stage_bytes(config) + fixed_bytes(layout, config, variant);
}

}  // namespace epifuse::codegen::sm90
