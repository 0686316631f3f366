// Which tensor maps the launch of a Hopper GEMM asks for where tiles end inside of a chunk.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>

#include "codegen/integers.h"
#include "codegen/sm90/dense.h"
#include "epifuse/error.h"
#include "ir/text.h"
#include "kernels/abi.h"
#include "tests/unit/codegen/dense_bound.h"
#include "tests/unit/targets/reference_device.h"

namespace epifuse::codegen {
namespace {

constexpr const char* kTwoResults =
    "graph g(x: bf16[M, K], w: bf16[N, K]) {\n  h = matmul x, w^T -> f32\n"
    "  y = tanh h\n  z = cast y -> bf16\n  return y, z\n}\n";
constexpr const char* kGroups =
    "graph g(x: bf16[M, K], w: bf16[G, N, K], ends: i32[G]) {\n"
    "  h = grouped_matmul x, w^T, ends\n  y = tanh h\n  return y\n}\n";

struct Case {
  plan::Plan plan;
  Bound bound;

  explicit Case(std::int64_t rows = 300, const char* graph = kTwoResults)
      : plan(plan::make_plan(ir::parse(graph), {})),
        bound(dense_bound(plan, {{"M", rows}, {"N", 1000}, {"K", 128}, {"G", 5}})) {}
  const plan::FusedGemm& step() const { return std::get<plan::FusedGemm>(plan.steps.front()); }

  // The columns of the boxes of each map, by its place in the parameters.
  std::map<std::size_t, int> boxes(const sm90::Config& config) const {
    std::map<std::size_t, int> out;
    for (const TensorMapRequest& map :
         sm90::launch(plan, step(), config, {}, bound, targets::reference_gpu().limits).maps) {
      EXPECT_TRUE(out.emplace(map.offset, map.box_cols).second) << "two maps at " << map.offset;
      EXPECT_EQ(map.box_cols * static_cast<int>(size_bytes(map.dtype)) % 16, 0);
    }
    return out;
  }
};

constexpr std::size_t store_at(int i) {
  return offsetof(abi::GemmParams, full) + offsetof(abi::FullSizeMaps, store) +
         static_cast<std::size_t>(i) * sizeof(abi::FullSizeMaps);
}
constexpr std::size_t cut_store_at(int i) {
  return store_at(i) + offsetof(abi::FullSizeMaps, cut_store);
}

// Whatever made such a plan: nothing is written past an array.
TEST(Sm90Launch, RefusesAnEpilogueThatTheBlockHasNoRoomFor) {
  Case all;
  plan::FusedGemm step = all.step();
  const plan::Store store = step.epilogue.stores.front();
  step.epilogue.stores.resize(abi::kMaxStores + 1, store);
  const sm90::Config config = sm90::configs(all.step(), *targets::find_target("sm_90a")).front();
  EXPECT_THROW(sm90::launch(all.plan, step, config, {}, all.bound, targets::reference_gpu().limits),
               InternalError);
}

// The block counts K in 32 bits.
TEST(Sm90Launch, RefusesProductsThatItsNumbersCannotCount) {
  for (const auto& [k, code] :
       std::map<std::int64_t, std::string>{{1 << 20, ""}, {std::int64_t{1} << 32, "too_large"}}) {
    Case all(4);
    for (BoundTensor& tensor : all.bound.tensors) {
      for (std::int64_t& size : tensor.layout.shape) size = size == 128 ? k : size;
      if (tensor.layout.shape.back() == k) tensor.layout.strides.front() = k;
    }
    all.bound.sizes["K"] = k;
    const auto why = sm90::why_not_bound(all.plan, all.step(), all.bound);
    EXPECT_EQ(why ? why->code : "", code) << k;
  }
}

TEST(Sm90Launch, RefusesMoreGroupsThanItsNumbersCanCount) {
  Case all(300, kGroups);
  const ir::Node& product = all.plan.graph[all.step().gemm.matmul];
  EXPECT_EQ(kernel_integers(all.plan.graph, product, all.bound).num_rows, 5);
  BoundTensor& ends = all.bound.tensors[static_cast<std::size_t>(product.args.back())];
  ends.layout.shape[0] = std::int64_t{1} << 32;  // 0 in 32 bits
  EXPECT_THROW(kernel_integers(all.plan.graph, product, all.bound), ArgumentError);
}

// y is f32, in boxes of 32 columns, z bf16, in boxes of 64.
TEST(Sm90Launch, AsksForNarrowerBoxesWhereTilesEndInsideOfAChunk) {
  const Case all;
  int num_cut = 0;
  for (const sm90::Config& config : sm90::configs(all.step(), *targets::find_target("sm_90a"))) {
    SCOPED_TRACE(print(config));
    const std::map<std::size_t, int> boxes = all.boxes(config);
    EXPECT_EQ(boxes.at(store_at(0)), 32);
    EXPECT_EQ(boxes.at(store_at(1)), 64);
    const int cut = config.two_widths ? 56 : config.tile_n % 64;
    EXPECT_EQ(boxes.count(cut_store_at(0)), cut % 32 == 0 ? 0u : 1u);
    EXPECT_EQ(boxes.count(cut_store_at(1)), cut == 0 ? 0u : 1u);
    if (cut % 32 != 0) {
      EXPECT_EQ(boxes.at(cut_store_at(0)), cut % 32);
    }
    if (cut != 0) {
      EXPECT_EQ(boxes.at(cut_store_at(1)), cut);
    }
    num_cut += cut != 0;
  }
  EXPECT_GT(num_cut, 10);
}

// The kernel waits for as many bytes as the boxes of A bring.
TEST(Sm90Launch, ABoxHoldsNoMoreRowsThanThereAre) {
  for (const std::int64_t rows : {1, 64, 65, 300}) {
    const Case all(rows);
    for (const sm90::Config& config : sm90::configs(all.step(), *targets::find_target("sm_90a"))) {
      SCOPED_TRACE(fmt::format("{}, {} rows", print(config), rows));
      const Launch launch = sm90::launch(all.plan, all.step(), config, {}, all.bound,
                                         targets::reference_gpu().limits);
      const auto a = std::find_if(launch.maps.begin(), launch.maps.end(), [](const auto& map) {
        return map.offset == offsetof(abi::GemmParams, a);
      });
      ASSERT_NE(a, launch.maps.end());
      const int part = config.tile_m / config.cluster_n;
      const bool is_cut = config.cluster_n == 1 && rows < part;
      EXPECT_EQ(a->box_rows, is_cut ? rows : part);
      int a_bytes = 0;
      std::memcpy(&a_bytes, launch.params.data() + offsetof(abi::GemmParams, a_bytes), 4);
      EXPECT_EQ(a_bytes, a->box_rows * config.cluster_n * 128);
    }
  }
}

// The last rows of a group, 64 or fewer, come without those of the next one.
int box_rows(const Launch& launch, std::size_t offset) {
  const auto map = std::find_if(launch.maps.begin(), launch.maps.end(),
                                [&](const auto& each) { return each.offset == offset; });
  return map == launch.maps.end() ? 0 : map->box_rows;
}

int least_rows(const Launch& launch) {
  int rows = 0;
  std::memcpy(&rows, launch.params.data() + offsetof(abi::GemmParams, least_rows), sizeof rows);
  return rows;
}

TEST(Sm90Launch, SmallGroupsHaveNoShortTiles) {
  for (const auto& [rows, least] : {std::pair<std::int64_t, int>{511, 1}, {5119, 1}, {5120, 65}}) {
    const Case all(rows, kGroups);
    for (const sm90::Config& config : sm90::configs(all.step(), *targets::find_target("sm_90a"))) {
      SCOPED_TRACE(fmt::format("{}, {} rows", print(config), rows));
      const Launch launch = sm90::launch(all.plan, all.step(), config, {}, all.bound,
                                         targets::reference_gpu().limits);
      EXPECT_EQ(least_rows(launch), sm90::has_short_tiles(config) ? least : 1);
    }
  }
}

TEST(Sm90Launch, ShortTilesOfGroupsHaveBoxesOfTheirOwn) {
  int num_short = 0;
  for (const std::int64_t rows : {1, 64, 65, 300}) {
    const Case all(rows, kGroups);
    for (const sm90::Config& config : sm90::configs(all.step(), *targets::find_target("sm_90a"))) {
      SCOPED_TRACE(fmt::format("{}, {} rows", print(config), rows));
      const Launch launch = sm90::launch(all.plan, all.step(), config, {}, all.bound,
                                         targets::reference_gpu().limits);
      const bool has_short =
          !config.cooperative && config.tile_m > 64 && config.cluster_m * config.cluster_n == 1;
      EXPECT_EQ(box_rows(launch, offsetof(abi::GemmParams, fewer_rows)),
                has_short ? std::min<std::int64_t>(rows, 64) : 0);
      num_short += has_short;
    }
  }
  EXPECT_GT(num_short, 20);
}

}  // namespace
}  // namespace epifuse::codegen
