// What the candidates of the Hopper GEMM set aside in shared memory for full-size operands.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "codegen/sm90/dense.h"
#include "ir/text.h"
#include "tests/unit/targets/reference_device.h"

namespace epifuse::codegen::sm90 {
namespace {

struct Case {
  static constexpr const char* kUsual = "w: bf16[N, K], r: bf16[M, N], s: bf16[M, N]";
  plan::Plan plan;
  explicit Case(const char* body, const char* parameters = kUsual)
      : plan(plan::make_plan(ir::parse(std::string("graph g(x: bf16[M, K], ") + parameters +
                                       ") {\n  h = matmul x, w^T\n" + body + "}\n"),
                             {})) {}
  const plan::FusedGemm& step() const { return std::get<plan::FusedGemm>(plan.steps.front()); }
  std::vector<Config> configs() const {
    return sm90::configs(step(), *targets::find_target("sm_90a"));
  }
  // The one of least expected time.
  Config chosen(const GemmSizes& sizes,
                const targets::DeviceProfile& device = targets::reference_gpu()) const {
    const KernelFamily& family = all_families().front();
    const auto all = family.configs(step(), *targets::find_target("sm_90a"));
    return all[choose(family, step(), all, sizes, device)].as<Config>();
  }
  int bytes(const Config& config, const Variant& variant = {}) const {
    return smem_bytes(EpilogueLayout(step().epilogue, variant.swapped), config, variant);
  }
};

int chunks_of_consumer(const Config& config) {
  return chunks_of_tile(config.tile_m, config.tile_n) / consumers_of_tile(config);
}

TEST(Sm90Configs, ResidualsOfCooperativeTilesComeThroughTheStages) {
  const Case residual("  y = add h, r\n  return y\n"), plain("  y = relu h\n  return y\n");
  int num_in_ring = 0;
  for (const Config& config : residual.configs()) {
    SCOPED_TRACE(print(config));
    const bool in_ring = loads_in_ring(EpilogueLayout(residual.step().epilogue), config, {});
    EXPECT_EQ(in_ring, config.cooperative && config.split_k == 1);
    EXPECT_NE(in_ring, config.in_place);
    if (!in_ring) continue;
    ++num_in_ring;
    EXPECT_EQ(residual.bytes(config), plain.bytes(config));
    EXPECT_GT(residual.bytes(config, {.misaligned_a = true}), residual.bytes(config));
    EXPECT_FALSE(
        loads_in_ring(EpilogueLayout(residual.step().epilogue), config, {.non_tma_loads = 1}));
  }
  EXPECT_GT(num_in_ring, 8);
}

TEST(Sm90Configs, FitIntoSharedMemoryAndKeepStagesForDepth) {
  const int most = targets::find_target("sm_90a")->smem_per_block_bytes;
  for (const char* body : {"  y = add h, r\n  return y\n", "  y = tanh h\n  return h, y\n",
                           "  t = add h, r\n  y = tanh t\n  return t, y\n"}) {
    const Case all(body);
    for (const Config& config : all.configs()) {
      SCOPED_TRACE(std::string(body) + print(config));
      EXPECT_LE(all.bytes(config), most);
      EXPECT_EQ(chunks_of_consumer(config) % config.load_depth, 0);
      EXPECT_EQ(chunks_of_consumer(config) % config.store_depth, 0);
      Config shallow = config;
      shallow.load_depth = shallow.store_depth = 1;
      const int room = most - all.bytes(shallow) + config.stages * stage_bytes(config);
      EXPECT_GE(config.stages, std::min(4, room / stage_bytes(config)));
      if (config.split_k > 1) {
        EXPECT_EQ(config.load_depth * config.store_depth, 1);
      }
    }
  }
}

// What is read or written by hand is not staged in place of anything, and may take more room.
TEST(Sm90Configs, FitIntoSharedMemoryInEveryVariant) {
  const targets::TargetInfo& target = *targets::find_target("sm_90a");
  for (const char* body :
       {"  y = add h, r\n  return y\n", "  t = add h, r\n  y = mul h, s\n  return t, y\n",
        "  t = add h, r\n  y = tanh t\n  return t, y\n"}) {
    const Case all(body);
    for (const Config& config : all.configs()) {
      for (unsigned bits = 0; bits < 256; ++bits) {
        const Variant variant{.swapped = (bits & 1) != 0,
                              .misaligned_a = (bits & 2) != 0,
                              .non_tma_loads = bits >> 2 & 3,
                              .non_tma_stores = bits >> 4 & 3,
                              .copied_stores = bits >> 6 & bits >> 4 & 3};
        const auto fitted = sm90::fitted(all.step(), config, variant, target);
        if (!fitted) continue;
        EXPECT_LE(all.bytes(*fitted, variant), target.smem_per_block_bytes)
            << body << print(config) << ", " << print(variant);
        EXPECT_GE(fitted->stages, 2);
      }
    }
  }
}

// One chunk of two results would make every chunk wait for the stores of the one before.
TEST(Sm90Configs, StageTwoChunksOfTwoResults) {
  const Case all("  y = tanh h\n  return h, y\n");
  for (const Config& config : all.configs()) {
    if (config.tile_m * config.tile_n > 192 * 128 || consumers(config) > 2) continue;  // no room
    if (config.split_k > 1 || chunks_of_consumer(config) % 2 != 0) continue;
    EXPECT_EQ(config.store_depth, 2) << print(config);
  }
}

TEST(Sm90Model, OfADeviceWithoutARowUsesTheRatesOfItsDriver) {
  const Case silu("  y = silu h\n  return y\n");
  const Config config = silu.configs().front();
  const GemmSizes large{1, 8192, 8192, 8192}, thin{1, 64, 8192, 8192};
  const targets::DeviceProfile reference = targets::reference_gpu();
  const auto us = [&](const GemmSizes& sizes, const targets::DeviceProfile& device) {
    return expected_us(silu.step(), config, sizes, device);
  };
  targets::DeviceProfile unknown = reference;
  unknown.known = nullptr;
  EXPECT_EQ(us(large, unknown), us(large, reference)) << "no rates: the kernels' constants";
  unknown.driver = {990, 4.9e6, 6e7};  // half the clock
  EXPECT_NEAR(us(large, unknown) / us(large, reference), 2, 0.05);
  unknown.driver = {1980, 0.49e6, 6e7};  // a tenth of the memory's rate
  EXPECT_GT(us(thin, unknown), 5 * us(thin, reference));
  // A device with a row keeps its constants, whatever its driver says.
  targets::DeviceProfile known = reference;
  known.driver = {990, 0.49e6, 6e7};
  EXPECT_EQ(us(thin, known), us(thin, reference));
}

// As measured on an H100: small tiles lose 1.5 times, tiles that share operands in clusters little.
TEST(Sm90Model, RowsOffTheLinesOfL2TakeTwoOfThem) {
  const Case residual("  t = add h, r\n  y = mul t, 0.5\n  return y\n");
  Case gelu("  return h\n");
  gelu.plan = plan::make_plan(
      ir::parse("graph g(x: bf16[K, M], w: bf16[K, N]) {\n  t = transpose x [1, 0]\n"
                "  h = matmul t, w\n  y = gelu_erf h\n  return y\n}\n"),
      {});
  const auto us = [](const Case& all, const std::string& name, const GemmSizes& sizes) {
    for (const Config& config : all.configs()) {
      if (print(config) == name) {
        return expected_us(all.step(), config, sizes, targets::reference_gpu());
      }
    }
    ADD_FAILURE() << "no config " << name;
    return 0.0;
  };
  const std::string small = "ping-pong 128x144, 5 stages", wide = "cooperative 256x128, 4 stages, ";
  const GemmSizes off{1, 1320, 4944, 9256}, on{1, 1320, 4944, 9280};
  EXPECT_GT(us(residual, small, off), 1.15 * us(residual, small, on));
  EXPECT_LT(us(residual, wide + "cluster 1x2", off), 1.15 * us(residual, wide + "cluster 1x2", on));
  GemmSizes padded = off;
  padded.row_bytes_a = padded.row_bytes_b = 2 * on.k;
  EXPECT_GT(us(residual, small, off), 1.15 * us(residual, small, padded)) << "strides count";
  const GemmSizes both_off{1, 8232, 4896, 4096}, both_on{1, 8256, 4864, 4096};
  const std::string narrow = "ping-pong 128x192/184, 4 stages";
  EXPECT_GT(us(gelu, narrow, both_off), 1.05 * us(gelu, narrow, both_on));
}

TEST(Sm90Configs, KeysTellVariantsApartThatPrintAlike) {
  const Variant first{.non_tma_stores = 1}, second{.non_tma_stores = 2};
  EXPECT_EQ(print(first), print(second));
  EXPECT_NE(key(first), key(second));
  const Variant copied{.non_tma_stores = 1, .copied_stores = 1};
  Variant in_pairs = copied;
  in_pairs.copied_at_once = 2;
  EXPECT_EQ(print(copied), print(in_pairs));
  EXPECT_NE(key(copied), key(in_pairs));
}

// A small batch reads its weights once: what matters is that most SMs have some to read.
TEST(Sm90Configs, ASmallBatchIsSpreadOverMostOfTheMultiprocessors) {
  const Case residual("  y = add h, r\n  return y\n");
  for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{4096, 4096},
                             {4096, 14336},
                             {14336, 4096},
                             {6144, 4096}}) {
    SCOPED_TRACE("64x" + std::to_string(n) + "x" + std::to_string(k));
    const GemmSizes sizes{1, 64, n, k};
    const Config chosen = residual.chosen(sizes);
    EXPECT_EQ(chosen.tile_m, 64) << print(chosen);
    const Tiling tiling = tile(chosen, sizes, targets::reference_gpu().limits);
    EXPECT_TRUE(tiling.is_one_wave) << print(chosen);
    EXPECT_GE(tiling.num_ctas, 85) << print(chosen);
  }
}

// Those that move least: on an H100 128x128 takes 1.3 times as long as 128x192 at such sizes.
TEST(Sm90Configs, MaximaOfRowsTakeTheLargestTilesAndThoseOfColumnsDoNot) {
  const char* gate =
      "  g = slice h [:, :N]\n  u = slice h [:, N:]\n  s = silu g\n  y = mul s, u\n  a = abs y\n";
  const auto reduced = [&](const std::string& top) {
    return Case((gate + top + "  return y, top\n").c_str(), "w: bf16[2*N, K]");
  };
  const auto most_accumulators = [](const Case& all) {
    int most = 0;
    for (const Config& config : all.configs()) most = std::max(most, accumulators(config));
    return most;
  };
  const Case rows = reduced("  top = row_max a\n"), columns = reduced("  top = col_max a\n");
  EXPECT_EQ(most_accumulators(rows), 192);
  EXPECT_EQ(most_accumulators(columns), 128);
  const GemmSizes sizes{1, 8192, 14336, 4096};
  targets::DeviceProfile h100 = targets::reference_gpu();
  h100.known = targets::find_device("NVIDIA H100 80GB HBM3");
  for (const targets::DeviceProfile& device : {targets::reference_gpu(), h100}) {
    const Config chosen = rows.chosen(sizes, device);
    EXPECT_GE(chosen.tile_m * chosen.tile_n, 128 * 192) << print(chosen);
  }
}

}  // namespace
}  // namespace epifuse::codegen::sm90
