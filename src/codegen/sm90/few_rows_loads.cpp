#include "codegen/sm90/few_rows_loads.h"

#include <algorithm>

#include "base/ceil_div.h"

namespace epifuse::codegen::sm90 {
namespace {

constexpr int kLoadBytes = 16;
constexpr int kWholeColumns = 64;  // along N, of which threads read 16 bytes each

// What holds vectors of B and of A in a step, also 16 bytes each.
int loads_of_step(const Config& config, const Loads& loads) {
  const int of_b = vectors_of_step(config, loads), row_blocks = config.tile_m / 8;
  if (takes_vectors(loads)) return of_b + row_blocks * 2;
  if (loads.is_k_major) return of_b + row_blocks * 4;
  return (loads.is_shifted ? 2 * of_b : of_b) +
         row_blocks * (loads.of_a == LoadsOfA::vectors ? 1 : 2);  // an element has a register
}

}  // namespace

Loads loads_of(const plan::GemmDesc& gemm, const Config& config) {
  const bool is_b_k_major = gemm.b.major == plan::Major::k,
             is_a_k_major = gemm.a.major == plan::Major::k;
  const bool is_shifted = config.rows_b != targets::Rows::aligned;
  const bool is_a_usual = is_a_k_major && config.rows_a == targets::Rows::aligned;
  const bool is_batched = !gemm.batch.empty();
  if (is_b_k_major && is_a_k_major && (is_shifted || !is_a_usual)) {
    return {true, is_shifted, LoadsOfA::shifted, is_batched, gemm.widens_b()};
  }
  return {is_b_k_major, is_shifted, is_a_usual ? LoadsOfA::vectors : LoadsOfA::elements, is_batched,
          gemm.widens_b()};
}

bool takes_vectors(const Loads& loads) {
  return loads.is_k_major && !loads.is_shifted && loads.of_a == LoadsOfA::vectors;
}

// Of 32 columns along N a load is 8. Those that are widened take 64 of K, as others do.
int vectors_of_step(const Config& config, const Loads& loads) {
  const int columns_of_vector = !loads.is_k_major || loads.widens_b ? 8 : 4;
  return config.products * config.tile_n / columns_of_vector;
}

// In as many registers as CTAs leave a thread: at least two steps, or of a CTA alone one. Of many
// CTAs one is enough: where loads are of 8 bytes, or of B whole vectors along K. Beside operands
// and sums there are addresses, and operands that are moved into their order.
Occupancy occupancy(const Config& config, const Loads& loads) {
  constexpr int kDeepest = 4;
  constexpr int kOfSecondProduct = 8, kOfHalves = 8, kOfPlace = 12;  // registers, as what follows
  struct Room {
    int threads;                 // of an SM
    int registers, where_moved;  // of a thread for operands and sums
    int fewest_steps = 2;        // where B runs along N
    bool for_vectors_alone = false;
  };
  constexpr Room kRooms[] = {
      {1024, 38, 0, 1, true}, {768, 60, 52}, {512, 88, 80}, {256, 210, 152, 1}};
  const int step = kLoadBytes / 4 * loads_of_step(config, loads);
  const int sums = config.products * config.tile_m * config.tile_n / kWarpThreads;
  const bool reads_halves = !loads.is_k_major && config.tile_n % kWholeColumns != 0;
  // Rows of B and elements of A with addresses of their own leave no register for the place that a
  // CTA has in a cluster or in a batch.
  const bool moves_both = loads.is_shifted && loads.of_a == LoadsOfA::elements;
  const bool has_place = config.split_k > 1 || loads.is_batched;
  const int besides = (config.products - 1) * kOfSecondProduct + (reads_halves ? kOfHalves : 0) +
                      (moves_both && has_place ? kOfPlace : 0) + sums;
  const bool moves = loads.is_shifted || loads.of_a != LoadsOfA::vectors;
  const int deepest = reads_halves ? 1 : loads.is_k_major && moves ? 2 : kDeepest;
  const int threads = config.warps * kWarpThreads;
  for (const Room& room : kRooms) {
    if (config.ctas > 0 && room.threads > config.ctas * threads) continue;
    if (room.threads % threads != 0 || (room.for_vectors_alone && !takes_vectors(loads))) continue;
    const int left = (moves ? room.where_moved : room.registers) - besides;
    const int depth = std::min(left / step, deepest);
    const int fewest = reads_halves || loads.is_k_major ? 1 : room.fewest_steps;
    if (depth >= fewest) return {room.threads / threads, depth};
  }
  return {};
}

std::int64_t column_tiles(const Config& config, const Loads& loads, std::int64_t n) {
  const std::int64_t step = loads.is_k_major && loads.is_shifted ? 8 : 1;
  return ceil_div(n, config.tile_n * step) * step;
}

}  // namespace epifuse::codegen::sm90
