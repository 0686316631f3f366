// Which tiles of the cp.async + mma.sync GEMM are worth compiling.
#include <algorithm>
#include <span>

#include "codegen/epilogue_blocks.h"
#include "codegen/sm80/gemm.h"

namespace epifuse::codegen::sm80 {
namespace {

struct Shape {
  int tile_m, tile_n, warp_m, warp_n;
};
// Warps of 64 x 64 read least from shared memory for what they multiply; smaller tiles are for
// problems of few tiles. Of two that the model expects to be alike the first was the faster one.
constexpr Shape kShapes[] = {{128, 128, 64, 64}, {256, 128, 64, 64}, {128, 256, 64, 64},
                             {64, 256, 64, 64},  {256, 64, 64, 64},  {128, 128, 64, 32},
                             {64, 128, 32, 64},  {128, 64, 64, 32},  {64, 64, 32, 32}};

// For gates whose results have blocks of columns, of which each CTA has whole ones. The last leaves
// registers for promoted sums; scales of blocks would need smaller warps, 16 of which spill.
constexpr Shape kShapesOfGateBlocks[] = {{128, 256, 64, 64}, {64, 256, 64, 64}, {64, 256, 32, 64}};

// For weights that are widened, which is for few rows: more take a copy of them in 16 bits.
constexpr Shape kShapesOfWidened[] = {{128, 128, 64, 32}, {64, 128, 64, 32}, {64, 128, 32, 64},
                                      {128, 64, 64, 32},  {64, 64, 32, 32},  {32, 128, 32, 32},
                                      {32, 128, 32, 64}};

// Of those that take one tile after another.
constexpr Shape kPersistentShapes[] = {{128, 128, 64, 64},
                                       {256, 128, 64, 64},
                                       {128, 256, 64, 64},
                                       {64, 128, 32, 64},
                                       {64, 64, 32, 32}};

// Of those that share K: it is for problems of few tiles.
constexpr Shape kSplitShapes[] = {{128, 128, 64, 64}, {64, 128, 32, 64}, {64, 64, 32, 32}};

constexpr Shape kSplitShapesOfWidened[] = {
    {64, 128, 64, 32}, {64, 128, 32, 64}, {32, 128, 32, 32}, {32, 128, 32, 64}, {64, 64, 32, 32}};

constexpr int kRegistersOfSm = 65536, kReservedBytes = 1024;  // of shared memory, for each CTA

int sums_of_thread(int warp_m, int warp_n) { return warp_m * warp_n / 32; }

// Where sums of instructions are promoted, those are beside a thread's own, and scales of blocks
// are beside both: those of gates are of two products.
bool leaves_registers(const Shape& shape, const plan::GemmDesc& gemm) {
  const bool has_gate_scales = gemm.is_scaled() && gemm.gating != plan::Gating::none;
  const int most_sums = has_gate_scales ? 32 : 64;
  return !gemm.promoted || sums_of_thread(shape.warp_m, shape.warp_n) <= most_sums;
}

// Also so that each CTA has whole blocks of a result's columns.
bool fits(const Shape& shape, const plan::FusedGemm& step) {
  const int columns = shape.tile_n / step.epilogue.num_accumulators;
  const bool has_whole_blocks = !step.epilogue.has_blocks() || columns % ir::kBlockColumns == 0;
  return has_whole_blocks && leaves_registers(shape, step.gemm);
}

std::span<const Shape> shapes(const plan::FusedGemm& step) {
  const bool is_gated = step.gemm.gating != plan::Gating::none;
  if (is_gated && step.epilogue.has_blocks()) return kShapesOfGateBlocks;
  if (step.gemm.widens_b()) return kShapesOfWidened;
  return kShapes;
}

std::span<const Shape> split_shapes(const plan::FusedGemm& step) {
  if (step.gemm.widens_b()) return kSplitShapesOfWidened;
  return kSplitShapes;
}
std::span<const Shape> persistent_shapes(const plan::FusedGemm& step) {
  if (step.gemm.widens_b()) return {};
  return kPersistentShapes;
}

// That a thread takes: an estimate from above.
int registers(const Config& config, const plan::GemmDesc& gemm) {
  const int sums = sums_of_thread(config.warp_m, config.warp_n);
  const bool takes_more = sums >= 64 || gemm.is_scaled();
  return sums >= (gemm.promoted ? 64 : 128) ? 255 : takes_more ? 168 : 128;
}

// CTAs that an SM has room for.
int ctas_of_sm(const Config& config, const plan::GemmDesc& gemm,
               const targets::TargetInfo& target) {
  const int by_memory =
      (target.smem_per_block_bytes + kReservedBytes) / (smem_bytes(config) + kReservedBytes);
  const int by_registers = kRegistersOfSm / (registers(config, gemm) * num_threads(config));
  return std::max(std::min(by_memory, by_registers), 1);
}

constexpr int kFewestStages = 3, kMostStages = 5;

Config config_of(const Shape& shape, int step_bytes, int stages, const plan::FusedGemm& step,
                 const targets::TargetInfo& target) {
  const plan::GemmDesc& gemm = step.gemm;
  Config config{shape.tile_m, shape.tile_n, shape.warp_m, shape.warp_n, step_bytes, stages};
  config.maxima = static_cast<int>(std::ssize(block_maxima(step.epilogue)));
  config.ctas = ctas_of_sm(config, gemm, target);
  config.products = gemm.gating == plan::Gating::none ? 1 : 2;
  config.grouped = gemm.has_groups();
  config.gathers = gemm.a.lookup >= 0;
  config.scaled = gemm.is_scaled();
  config.widens_b = gemm.widens_b();
  return config;
}

// Bytes of K of a stage: whole units of 64 of each operand.
constexpr int kShortStep = 64, kLongStep = 128;
int usual_step(const plan::GemmDesc& gemm) { return gemm.widens_b() ? kLongStep : kShortStep; }

// Of the most stages that leave room for two CTAs an SM.
Config two_of_sm(const Shape& shape, const plan::FusedGemm& step,
                 const targets::TargetInfo& target) {
  const int step_bytes = usual_step(step.gemm);
  int stages = kMostStages;
  while (stages > kFewestStages && config_of(shape, step_bytes, stages, step, target).ctas < 2) {
    --stages;
  }
  return config_of(shape, step_bytes, stages, step, target);
}

// With room for the epilogue behind the stages, as much as leaves as many CTAs an SM as one block
// of rows does; none where even that is too much.
std::optional<Config> persistent(const Config& config, const plan::GemmDesc& gemm,
                                 const targets::TargetInfo& target) {
  const auto with_blocks = [&](int blocks) {
    Config out = config;
    out.staged_blocks = blocks;
    out.ctas = ctas_of_sm(out, gemm, target);
    return out;
  };
  const Config least = with_blocks(1);
  if (smem_bytes(least) > target.smem_per_block_bytes) return std::nullopt;
  constexpr int kBlockRows = 16;
  int blocks = config.warp_m / kBlockRows;
  while (blocks > 1 && (smem_bytes(with_blocks(blocks)) > target.smem_per_block_bytes ||
                        with_blocks(blocks).ctas < least.ctas)) {
    blocks /= 2;
  }
  return with_blocks(blocks);
}

}  // namespace

std::vector<Config> configs(const plan::FusedGemm& step, const targets::TargetInfo& target) {
  constexpr int kSplits[] = {2, 4, 8};
  std::vector<Config> out;
  for (const Shape& shape : shapes(step)) {
    if (!fits(shape, step)) continue;
    for (int step_bytes = usual_step(step.gemm); step_bytes <= kLongStep; step_bytes *= 2) {
      for (int stages = kFewestStages; stages <= kMostStages; ++stages) {
        const Config config = config_of(shape, step_bytes, stages, step, target);
        if (smem_bytes(config) <= target.smem_per_block_bytes) out.push_back(config);
      }
    }
  }
  for (const Shape& shape : persistent_shapes(step)) {
    if (!fits(shape, step)) continue;
    for (int stages = kFewestStages; stages <= kMostStages; ++stages) {
      const Config once = config_of(shape, kShortStep, stages, step, target);
      const auto config = persistent(once, step.gemm, target);
      if (config) out.push_back(*config);
    }
  }
  if (step.gemm.has_groups()) return out;  // few groups have too few rows for all SMs
  for (const Shape& shape : split_shapes(step)) {
    if (!fits(shape, step)) continue;
    for (const int parts : kSplits) {
      Config config = two_of_sm(shape, step, target);
      config.split_k = parts;
      out.push_back(config);
    }
  }
  return out;
}

std::optional<Config> fitted(const plan::FusedGemm&, const Config& config, const Variant&,
                             const targets::TargetInfo&) {
  return config;
}

}  // namespace epifuse::codegen::sm80
