// What the Hopper GEMM's kernels differ in: configs and variants.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "targets/device_profile.h"

namespace epifuse::codegen::sm90 {

// How a kernel reads scales of blocks of K: kernels/sm90/policies.cuh.
enum class Scaling : std::uint8_t { none, by_tile, by_column };

// One point of the search space.
struct Config {
  int tile_m = 0, tile_n = 0, stages = 0;  // multiples of 64, of 16
  int load_depth = 1,
      store_depth = 1;       // chunks of full-size loads and stores in flight, a consumer
  bool in_place = false;     // results are staged where full-size loads were; no store_depth
  bool widens_b = false;     // elements of b have 8 bits, and 16 in a stage
  int math_columns = 64;     // columns whose epilogue is computed before any of them is staged
  bool cooperative = false;  // two warpgroups, or three of 192 rows, share a tile; else each of two
                             // owns whole ones (ping-pong), or, where K is split, one of them the
                             // only one (one-consumer)
  bool two_widths = false;   // some tiles are 8 columns narrower, so that tiles fill whole waves
  bool swapped = false;      // computes D^T = B^T * A^T of results that stay as they are: tile_m
                             // counts their columns, and their chunks are staged as columns
  bool side_by_side = false;         // there are a few products of one a
  int cluster_m = 1, cluster_n = 1;  // CTAs that share tiles of B, of A
  int split_k = 1;                   // CTAs of a cluster that share the products of one tile
  int products = 1;                  // whose columns are side by side in tile_n: 2 where gated
  bool grouped = false;              // rows belong to groups
  bool gathers = false;              // rows of a are looked up
  bool pointer_arrays = false;       // many products, each of its own sizes
  Scaling scaling = Scaling::none;
  // Of a kernel for few rows (few_rows.h), which share K; 0 where wgmma multiplies. There `stages`
  // are steps loaded ahead, and tile_m is a multiple of 8.
  std::int16_t warps = 0;
  std::int16_t ctas = 0;  // an SM has at most, each with more steps ahead; 0: as many as fit
  // How the operands lie in memory, after the exchange where roles are swapped: of what `fitted`
  // makes of a config.
  targets::Rows rows_a = targets::Rows::aligned, rows_b = targets::Rows::aligned;
  // Instructions of a thread and chunk that load full operands and store results, where TMA cannot
  // address them: also of what `fitted` makes.
  std::int16_t lane_loads = 0, lane_stores = 0;
  bool whole_sectors = false;  // such results leave as whole sectors of memory; of `fitted`, too
  bool operator==(const Config&) const = default;
};
// "ping-pong 128x192, 4 stages"; parts that are as usual are left out. Names a config in results.
std::string print(const Config& config);
inline bool is_for_few_rows(const Config& config) { return config.warps > 0; }
inline bool is_misaligned(const Config& config) {
  return config.rows_a != targets::Rows::aligned || config.rows_b != targets::Rows::aligned;
}
// The same with half as many math_columns, or for few rows a step less ahead, which takes fewer
// registers; nothing at the fewest.
std::optional<Config> leaner(Config config);

// What bound tensors ask of a kernel beyond its config. The usual one is all false: rows are
// contiguous and TMA can address them. Another is compiled when such tensors come.
struct Variant {
  bool swapped = false;  // computes D^T = B^T * A^T, as results and full operands are column-major
  bool misaligned_a = false;  // rows of a (of b, if swapped) start off 16-byte boundaries
  bool misaligned_b = false;
  unsigned non_tma_loads = 0;   // bit i: the i-th full-size load is not read by TMA
  unsigned row_loads = 0;       // of these, bit i: its columns lie side by side, ..
  unsigned paired_loads = 0;    // .. and two of them are read at once
  unsigned non_tma_stores = 0;  // bit i: the i-th full-size store is not written by TMA
  unsigned copied_stores = 0;   // of these, bit i: its rows are copied from staging, ..
  int copied_at_once = 1;       // .. so many elements at a time; the rest is written one by one
  bool whole_sectors = false;   // what is copied is kept until a sector of memory is whole
  bool unpaired = false;        // even and odd columns of a result are written one by one
  bool operator==(const Variant&) const = default;
  bool is_misaligned() const { return misaligned_a || misaligned_b; }
};
std::string print(const Variant& variant);  // "" for the usual one
std::string key(const Variant& variant);    // with the bits that `print` leaves out

}  // namespace epifuse::codegen::sm90
