// Host half of kernels/sm90/dense.cuh; see KernelFamily for what each function promises.
#pragma once

#include <span>
#include <vector>

#include "codegen/epilogue_layout.h"
#include "codegen/family.h"
#include "codegen/product_roles.h"
#include "codegen/sm90/config.h"
#include "codegen/sm90/operand_format.h"
#include "kernels/abi.h"

namespace epifuse::codegen::sm90 {

std::optional<plan::WhyNot> why_not(const plan::Plan& plan, const plan::FusedGemm& step,
                                    const targets::TargetInfo& target);
std::vector<Config> configs(const plan::FusedGemm& step, const targets::TargetInfo& target);
// A candidate, whose stages and depths follow from the epilogue.
struct TileShape {
  int m, n;
  bool cooperative, two_widths;
  int cluster_m, cluster_n, split_k;
};
// Those of these shapes that suit the step.
std::vector<Config> configs_of(std::span<const TileShape> shapes, const plan::FusedGemm& step,
                               const targets::TargetInfo& target);
double expected_us(const plan::FusedGemm& step, const Config& config, const GemmSizes& sizes,
                   const targets::DeviceProfile& device);
KernelSource source(const plan::Plan& plan, const plan::FusedGemm& step, const Config& config,
                    const Variant& variant, const targets::TargetInfo& target);
std::optional<plan::WhyNot> why_not_bound(const plan::Plan& plan, const plan::FusedGemm& step,
                                          const Bound& bound);
std::optional<Config> fitted(const plan::FusedGemm& step, const Config& config,
                             const Variant& variant, const targets::TargetInfo& target);
// How the operands of the variant lie.
void set_rows(const plan::GemmDesc& gemm, const Variant& variant, Config& config);
// How threads move what TMA cannot, where rows of the product are `k` long: operands that are read
// by rows, results whose rows warps copy from staging.
void set_moved(const std::vector<FullSize>& loads, const std::vector<FullSize>& stores,
               std::int64_t k, Variant& out);
// What the variant has threads move of a chunk; what none stages counts as operations do
// (Pressure::by_hand).
void set_lanes(const EpilogueLayout& layout, const Variant& variant, Config& config);
Variant variant(const plan::Plan& plan, const plan::FusedGemm& step, const Bound& bound);
OperandRoles roles(const Variant& variant);
Partials partials(const plan::FusedGemm& step, const Config& config, const Variant& variant,
                  const Sizes& sizes, const targets::DeviceLimits& limits);
Launch launch(const plan::Plan& plan, const plan::FusedGemm& step, const Config& config,
              const Variant& variant, const Bound& bound, const targets::DeviceLimits& limits);
// Of many problems in one launch, and of a few products of one A.
const PointerArrayFunctions& pointer_arrays();
const SideBySideFunctions& side_by_side();

constexpr int kBlockRows = 64;       // of an instruction
constexpr int kNarrower = 8;         // columns, of a narrow tile where tiles have two widths
constexpr int kMostTiles = 1 << 21;  // what the kernel's float division can number

// Whether tiles may have one block of rows alone: the last ones of a group (kHasShortTiles in
// kernels/sm90/groups.cuh).
inline bool has_short_tiles(const Config& config) {
  return config.grouped && !config.cooperative && config.tile_m > kBlockRows &&
         config.cluster_m * config.cluster_n == 1;
}
// Whether warps of the producer fill stages with an operand that came elsewhere.
inline bool has_movers(const Config& config, const Variant& variant) {
  return config.widens_b || variant.is_misaligned();
}
// Whether D^T is computed: a is b, rows are columns.
inline bool are_exchanged(const Config& config, const Variant& variant) {
  return config.swapped || variant.swapped;
}
// Of a group's last tile that is a whole one, as the kernel takes the groups of `sizes`: where they
// are small, the weights come from memory, and a short tile would read them apart from the others.
int least_rows_of_tile(const Config& config, const GemmSizes& sizes);
// Columns of a tile's results.
inline int result_columns(const Config& config) { return config.tile_n / config.products; }
// Warpgroups that multiply. Cooperative ones have as many rows of a tile each, whole blocks.
inline int consumers(int tile_m, bool cooperative) {
  return cooperative && tile_m % (2 * kBlockRows) != 0 ? 3 : 2;
}
inline int consumers(const Config& config) { return consumers(config.tile_m, config.cooperative); }
inline int consumers_of_tile(int tile_m, bool cooperative) {
  return cooperative ? consumers(tile_m, cooperative) : 1;
}
inline int consumers_of_tile(const Config& config) {
  return consumers_of_tile(config.tile_m, config.cooperative);
}
inline int threads(const Config& config) { return (1 + consumers(config)) * 128; }
// Of a thread of a consumer, in registers.
inline int accumulators(int tile_m, int tile_n, bool cooperative) {
  return tile_m * tile_n / 128 / consumers_of_tile(tile_m, cooperative);
}
inline int accumulators(const Config& config) {
  return accumulators(config.tile_m, config.tile_n, config.cooperative);
}
inline int accumulators(const TileShape& shape) {
  return accumulators(shape.m, shape.n, shape.cooperative);
}
// The step with even and odd columns of 16-bit results as one store of pairs, unless the variant
// has them apart.
plan::FusedGemm paired(plan::FusedGemm step, const Variant& variant);
// The same, without casts that its stores repeat, and what is read of each group of rows as of each
// product of a batch.
plan::FusedGemm as_compiled(plan::FusedGemm step, const Variant& variant);
// Why the kernel cannot take the groups of a step, or rows that it looks up.
std::optional<plan::WhyNot> why_not_groups(const plan::Plan& plan, const plan::FusedGemm& step);
// The map of rows of K that groups share out: from each on, a window of a step's rows
// (kernels/sm90/k_groups.cuh).
TensorMapRequest windows(TensorMapRequest rows_of_k, int step_k);
// Whether memory suits pairs: every two of them at multiples of their bytes, side by side.
bool can_pair(const plan::FusedGemm& step, const Bound& bound);

// The policies of a kernel's Config (kernels/sm90/policies.cuh), one a line.
std::string policies_text(const plan::GemmDesc& gemm, const EpilogueLayout& layout,
                          const Config& config, const Variant& variant);
// Whether gates take longer for too few bytes of operands under way.
bool is_short_of_stages(const Config& config);
// Bytes of one stage of operands and its barriers.
int stage_bytes(const Config& config);
// Of shared memory beside the stages.
int fixed_bytes(const EpilogueLayout& layout, const Config& config, const Variant& variant);
// Bytes of shared memory of one CTA: the sum that SharedLayout in the kernel must equal.
int smem_bytes(const EpilogueLayout& layout, const Config& config, const Variant& variant);
// Of staging, 2 KiB a warp and chunk; bit i of `plain`: the i-th load or store has none.
int load_slots(const EpilogueLayout& layout, unsigned plain);
int store_slots(const EpilogueLayout& layout, unsigned plain);
int cluster_size(const Config& config);
// Whether K is split and one consumer alone has a cluster's tile.
bool is_one_consumer(const Config& config);
// In how many parts of a tile's columns the sums of each step are computed and added, where they
// are promoted: they take registers beside those of the tile.
int column_parts(const Config& config, const plan::GemmDesc& gemm);
// Whether an epilogue's full-size loads come through the stages (kernels/sm90/loads.cuh).
bool loads_in_ring(const EpilogueLayout& layout, const Config& config, const Variant& variant);
// Whether results that TMA cannot write leave as whole sectors: kernels/sm90/sector_copies.cuh.
bool writes_sectors(const EpilogueLayout& layout, const Config& config, const Variant& variant);
// Chunks whose full-size loads must be there at once: for maxima those of a block of columns.
int fewest_loads(const EpilogueLayout& layout);
// Chunks of 64 x 64 results of a tile, the last of a row of them counted whole.
int chunks_of_tile(int tile_m, int columns);
int chunks_of_tile(const Config& config);
// Of the last chunk of a row of chunks, where it is cut (kCutColumns in kernels/sm90/chunk.cuh).
int cut_columns(const Config& config);

// What an epilogue needs beside the accumulators.
struct Pressure {
  int load_slots = 0, store_slots = 0;  // of staging, 2 KiB a warp and chunk
  int rows = 0;                         // row vectors
  int by_hand = 0;  // full operands and results that are moved element by element
  int reductions = 0, row_reductions = 0;  // all, with maxima of blocks; those along rows
  int products = 1;                        // accumulators of an element
  int cost = 0;                            // instructions an element
  bool rounds = false;                     // keeps roundings, and with them more values
  bool vectors = false;                    // more than the one row vector of a bias
  bool many_vectors = false;               // more than two vectors or scalars
  bool squares = false;                    // maxima of blocks of 128 rows, too
};
Pressure pressure(const plan::Epilogue& epilogue);

// How a config covers a problem.
struct Tiling {
  std::int64_t tiles = 0;     // of all products
  std::int64_t columns = 0;   // of tiles
  std::int64_t num_ctas = 0;  // of the persistent grid, or of all clusters that split K
  int raster = 1;             // tiles along m that are walked side by side
  bool is_one_wave = false;   // no CTA has a second tile
};
// How many clusters of so many CTAs the device runs.
int clusters_at_once(int size, const targets::DeviceLimits& limits);
// `sizes`: of the results.
Tiling tile(const Config& config, const GemmSizes& sizes, const targets::DeviceLimits& limits);
// The same for a model of time: as many tiles as groups of rows have on average, in whole ones.
Tiling expected_tiling(const Config& config, const GemmSizes& sizes,
                       const targets::DeviceLimits& limits);

}  // namespace epifuse::codegen::sm90
