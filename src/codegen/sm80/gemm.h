// Host half of kernels/sm80/gemm.cuh; see KernelFamily for what each function promises.
#pragma once

#include "base/ceil_div.h"
#include "codegen/epilogue_layout.h"
#include "codegen/family.h"
#include "codegen/product_roles.h"
#include "codegen/sm80/config.h"

namespace epifuse::codegen::sm80 {

std::optional<plan::WhyNot> why_not(const plan::Plan& plan, const plan::FusedGemm& step,
                                    const targets::TargetInfo& target);
bool suits(const targets::TargetInfo& target);
std::vector<Config> configs(const plan::FusedGemm& step, const targets::TargetInfo& target);
double expected_us(const plan::FusedGemm& step, const Config& config, const GemmSizes& sizes,
                   const targets::DeviceProfile& device);
KernelSource source(const plan::Plan& plan, const plan::FusedGemm& step, const Config& config,
                    const Variant& variant, const targets::TargetInfo& target);
std::optional<plan::WhyNot> why_not_bound(const plan::Plan& plan, const plan::FusedGemm& step,
                                          const Bound& bound);
std::optional<Config> fitted(const plan::FusedGemm& step, const Config& config,
                             const Variant& variant, const targets::TargetInfo& target);
Variant variant(const plan::Plan& plan, const plan::FusedGemm& step, const Bound& bound);
OperandRoles roles(const Variant& variant);
Partials partials(const plan::FusedGemm& step, const Config& config, const Variant& variant,
                  const Sizes& sizes, const targets::DeviceLimits& limits);
Scratch scratch(const plan::FusedGemm& step, const Config& config, const Variant& variant,
                const Sizes& sizes, const targets::DeviceLimits& limits);
Launch launch(const plan::Plan& plan, const plan::FusedGemm& step, const Config& config,
              const Variant& variant, const Bound& bound, const targets::DeviceLimits& limits);
// Of many problems in one launch.
const PointerArrayFunctions& pointer_arrays();

inline int num_threads(const Config& config) {
  return config.tile_m / config.warp_m * (config.tile_n / config.warp_n) * 32;
}
inline bool is_persistent(const Config& config) { return config.staged_blocks > 0; }
// Bytes of shared memory of one CTA: the stages, and the epilogue's staging, which takes their
// place where a CTA has one tile. Maxima have room of their own.
inline int smem_bytes(const Config& config) {
  constexpr int kRows = 16, kPadding = 8, kBytes = 4;  // of kernels/sm80/epilogue.cuh
  return (config.tile_m * config.step_bytes + config.tile_n * step_bytes_of_b(config)) *
             config.stages +
         config.maxima * config.tile_m * (config.tile_n / config.warp_n) * kBytes +
         num_threads(config) / 32 * config.staged_blocks * kRows * (config.warp_n + kPadding) *
             kBytes;
}
// Columns of the results of a tile, and of a warp.
inline int result_columns(const Config& config) { return config.tile_n / config.products; }
inline int warp_columns(const Config& config) { return config.warp_n / config.products; }

// Bytes of a kernel's parameter block: up to the last entry that it uses.
std::size_t params_bytes(const EpilogueLayout& layout, const Config& config);

// Tiles of a problem, of results of these sizes, and the rows of tiles that go side by side.
struct Tiling {
  std::int64_t tiles = 0;
  int raster = 1;
};
Tiling tile(const Config& config, const GemmSizes& sizes, int num_sms);

}  // namespace epifuse::codegen::sm80
