// Where a Hopper GEMM that reduces is told to leave its partial results.
#include <gtest/gtest.h>

#include <cstring>

#include "codegen/sm90/dense.h"
#include "ir/text.h"
#include "kernels/abi.h"
#include "tests/unit/codegen/dense_bound.h"
#include "tests/unit/targets/reference_device.h"

namespace epifuse::codegen {
namespace {

const targets::TargetInfo& hopper() { return *targets::find_target("sm_90a"); }

struct Case {
  plan::Plan plan;
  const plan::FusedGemm& step() const { return std::get<plan::FusedGemm>(plan.steps.front()); }

  explicit Case(const std::string& reductions)
      : plan(plan::make_plan(
            ir::parse("graph g(x: bf16[B, M, K], w: bf16[B, N, K]) {\n  y = matmul x, w^T\n" +
                      reductions + "}\n"),
            {})) {}
};

// All parts of whole tiles, in this order of one direction: what the kernel's chunks may write.
std::int64_t parts_of_tiles(const sm90::Config& config, bool rows, const GemmSizes& sizes) {
  const targets::DeviceLimits limits = targets::reference_gpu().limits;
  const std::int64_t columns = sm90::tile(config, sizes, limits).columns;
  if (rows) return columns * config.cluster_n * ((config.tile_n + 63) / 64);
  const std::int64_t height = config.tile_m * config.cluster_m;
  return (sizes.m + height - 1) / height * height / 16;
}

void expect_room(const Case& reduced, bool rows, const Sizes& sizes) {
  for (const sm90::Config& config : sm90::configs(reduced.step(), hopper())) {
    for (const bool swapped : {false, true}) {
      SCOPED_TRACE(print(config) + (swapped ? ", swapped" : ""));
      sm90::Variant variant;
      variant.swapped = swapped;
      GemmSizes gemm{sizes.at("B"), sizes.at("M"), sizes.at("N"), sizes.at("K")};
      if (swapped) std::swap(gemm.m, gemm.n);
      const bool along_n = rows != swapped;
      const Partials partials =
          sm90::partials(reduced.step(), config, variant, sizes, targets::reference_gpu().limits);
      const std::int64_t parts = parts_of_tiles(config, along_n, gemm);
      const std::int64_t length = along_n ? gemm.m : gemm.n;
      EXPECT_EQ(partials.layout.shape, (std::vector<std::int64_t>{gemm.batch, parts, length}));
      const auto& strides = partials.layout.strides;
      EXPECT_GE(strides[1], length);
      EXPECT_EQ(strides[1] % 4, 0);
      EXPECT_EQ(strides[0], parts * strides[1]);
      EXPECT_GE(partials.bytes, static_cast<std::size_t>(gemm.batch * strides[0]) * 4);
      EXPECT_LE(partials.num_parts, parts);
      EXPECT_GE(partials.num_parts * (along_n ? 64 : 16), along_n ? gemm.n : gemm.m);
    }
  }
}

TEST(Sm90Partials, HaveRoomForEveryChunkOfEveryTile) {
  const Case rows("  s = row_sum y\n  return y, s\n"), columns("  s = col_max y\n  return y, s\n");
  for (const Sizes& sizes : {Sizes{{"B", 1}, {"M", 1}, {"N", 8}, {"K", 64}},
                             Sizes{{"B", 3}, {"M", 127}, {"N", 392}, {"K", 72}},
                             Sizes{{"B", 1}, {"M", 4096}, {"N", 4096}, {"K", 512}},
                             Sizes{{"B", 2}, {"M", 1000}, {"N", 2600}, {"K", 512}}}) {
    expect_room(rows, true, sizes);
    expect_room(columns, false, sizes);
  }
}

TEST(Sm90Partials, AreBoundInTheOrderOfTheReductions) {
  const Case reduced("  s = row_sum y\n  m = row_max y\n  return s, y, m\n");
  const plan::FusedGemm& step = reduced.step();
  const Bound bound = dense_bound(reduced.plan, {{"B", 2}, {"M", 100}, {"N", 200}, {"K", 64}});
  ASSERT_FALSE(sm90::why_not_bound(reduced.plan, step, bound).has_value());
  const sm90::Config config = sm90::configs(step, hopper()).front();
  for (const bool swapped : {false, true}) {
    sm90::Variant variant;
    variant.swapped = swapped;
    const Partials partials =
        sm90::partials(step, config, variant, bound.sizes, targets::reference_gpu().limits);
    Bound placed = bound;
    std::vector<const void*> expected;
    for (const plan::Store& store : step.epilogue.stores) {
      if (store.kind == plan::StoreKind::tile) continue;
      BoundTensor& tensor = placed.tensors[static_cast<std::size_t>(store.value)];
      tensor.layout = partials.layout;
      expected.push_back(tensor.data);
    }
    const Launch launch =
        sm90::launch(reduced.plan, step, config, variant, placed, targets::reference_gpu().limits);
    abi::GemmParams params{};
    ASSERT_LE(launch.params.size(), sizeof params);
    std::memcpy(&params, launch.params.data(), launch.params.size());
    ASSERT_EQ(expected.size(), 2u);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(params.partials[i].data, expected[i]);
      EXPECT_EQ(params.partials[i].stride, partials.layout.strides[1]);
      EXPECT_EQ(params.partials[i].batch.inner, partials.layout.strides[0]);
    }
  }
}

}  // namespace
}  // namespace epifuse::codegen
