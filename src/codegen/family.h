// What a GEMM kernel family offers: the host half of a kernel template. A row of families.def.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/bound.h"
#include "codegen/gemm_sizes.h"
#include "codegen/launch.h"
#include "plan/plan.h"
#include "targets/targets.h"

namespace epifuse::codegen {

// One point of a family's search space.
struct GemmConfig {
  int tile_m = 0, tile_n = 0, stages = 0;  // multiples of 64, of 16
  int load_depth = 1,
      store_depth = 1;       // chunks of full-size loads and stores in flight, a consumer
  bool in_place = false;     // results are staged where full-size loads were; no store_depth
  int math_columns = 64;     // columns whose epilogue is computed before any of them is staged
  bool cooperative = false;  // both warpgroups share a tile; else each owns whole ones (ping-pong),
                             // or, where K is split, one of them the only one (single)
  bool shares_last = false;  // ping-pong: both write the last tile of a CTA
  bool shares_staging = false;  // ping-pong: of results, by turns; one chunk deep
  bool short_last = false;      // ping-pong: the last wave may be of tiles of 64 rows
  bool two_widths = false;      // some tiles are 8 columns narrower, so that tiles fill whole waves
  int cluster_m = 1, cluster_n = 1;  // CTAs that share tiles of B, of A
  int split_k = 1;                   // CTAs of a cluster that share the products of one tile
  int products = 1;                  // whose columns are side by side in tile_n: 2 where gated
  bool grouped = false;              // rows belong to groups
  bool gathers = false;              // rows of a are looked up
  bool problems = false;             // many products, each of its own sizes
  bool operator==(const GemmConfig&) const = default;
};
// "ping-pong 128x192, 4 stages"; parts that are as usual are left out. Names a config in results.
std::string print(const GemmConfig& config);
// The same with half as many math_columns, which takes fewer registers; nothing at the fewest.
std::optional<GemmConfig> leaner(GemmConfig config);

// What bound tensors ask of a kernel beyond its config. The usual one is all false: rows are
// contiguous and TMA can address them. Another is compiled when such tensors come.
struct GemmVariant {
  bool swapped = false;  // computes D^T = B^T * A^T, as results and full operands are column-major
  bool shifted_a = false;  // rows of a (of b, if swapped) start off 16-byte boundaries
  bool shifted_b = false;
  unsigned plain_loads = 0;   // bit i: the i-th full-size load is read element by element
  unsigned plain_stores = 0;  // bit i: the i-th full-size store is written so
  bool unpaired = false;      // even and odd columns of a result are written one by one
  bool operator==(const GemmVariant&) const = default;
  bool is_shifted() const { return shifted_a || shifted_b; }
};
std::string print(const GemmVariant& variant);  // "" for the usual one

// What a kernel leaves of each reduction for a tail to combine: float32 values of parts of rows, or
// of columns.
struct Partials {
  ir::Layout layout;           // [batch.., parts, length], all of which the kernel may write
  std::int64_t num_parts = 0;  // the first of them that make up the result
  std::size_t bytes = 0;
};

// The host half of a GEMM kernel template. A row of families.def.
struct KernelFamily {
  std::string_view name;     // "sm90_dense"
  std::string_view summary;  // one sentence for `explain` and docs
  // Whether the family can take the step on the target, judged by what is known at compile time.
  std::optional<plan::WhyNot> (*why_not)(const plan::Plan&, const plan::FusedGemm&,
                                         const targets::TargetInfo&);
  // All configs worth compiling, best general choice first.
  std::vector<GemmConfig> (*configs)(const plan::FusedGemm&, const targets::TargetInfo&);
  // The time the family's model expects of a config, without launch, in microseconds.
  double (*expected_us)(const plan::FusedGemm&, const GemmConfig&, const GemmSizes&,
                        const targets::DeviceLimits&);
  KernelSource (*source)(const plan::Plan&, const plan::FusedGemm&, const GemmConfig&,
                         const GemmVariant&, const targets::TargetInfo&);
  // Whether the bound tensors can be addressed; the backend falls back if not.
  std::optional<plan::WhyNot> (*why_not_bound)(const plan::Plan&, const plan::FusedGemm&,
                                               const Bound&);
  // What becomes of one of `configs` in the variant, which may leave room for fewer stages; empty
  // where no kernel of it may be of the variant.
  std::optional<GemmConfig> (*fitted)(const plan::FusedGemm&, const GemmConfig&, const GemmVariant&,
                                      const targets::TargetInfo&);
  // The variant that these tensors need; only of tensors that why_not_bound lets pass.
  GemmVariant (*variant)(const plan::Plan&, const plan::FusedGemm&, const Bound&);
  // Of a step that reduces: the same for each of its reductions.
  Partials (*partials)(const plan::FusedGemm&, const GemmConfig&, const GemmVariant&, const Sizes&,
                       const targets::DeviceLimits&);
  // Here values that are reductions are bound to their partial results.
  Launch (*launch)(const plan::Plan&, const plan::FusedGemm&, const GemmConfig&, const GemmVariant&,
                   const Bound&, const targets::DeviceLimits&);
};
std::span<const KernelFamily> all_families();

// The config of least expected time.
std::size_t choose(const KernelFamily& family, const plan::FusedGemm& step,
                   std::span<const GemmConfig> configs, const GemmSizes& sizes,
                   const targets::DeviceLimits& limits);

}  // namespace epifuse::codegen
