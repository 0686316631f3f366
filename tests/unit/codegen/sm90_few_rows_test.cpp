// Which steps the kernel for few rows takes, when the model chooses it, and what it is launched on.
#include "codegen/sm90/few_rows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "epifuse/tensor.h"
#include "ir/text.h"
#include "kernels/abi.h"
#include "tests/unit/targets/reference_device.h"

namespace epifuse::codegen::sm90 {
namespace {

using Longs = std::vector<std::int64_t>;

struct Case {
  plan::Plan plan;
  explicit Case(const std::string& graph) : plan(plan::make_plan(ir::parse(graph), {})) {}
  const plan::FusedGemm& step() const { return std::get<plan::FusedGemm>(plan.steps.front()); }
  std::string code() const {
    const auto why = why_not_few_rows(step());
    EXPECT_EQ(why.has_value(), few_rows_configs(step()).empty());
    return why ? why->code : "";
  }
  Config chosen(const GemmSizes& sizes) const {
    const KernelFamily& family = all_families().front();
    const auto all = family.configs(step(), *targets::find_target("sm_90a"));
    return all[choose(family, step(), all, sizes, targets::reference_gpu())].as<Config>();
  }
};

std::string graph(const std::string& inputs, const std::string& body) {
  return "graph g(" + inputs + ") {\n" + body + "}\n";
}
std::string linear(const std::string& dtype, const std::string& rows = "M") {
  return graph("x: " + dtype + "[" + rows + ", K], w: " + dtype + "[N, K]",
               "  h = matmul x, w^T\n  y = silu h\n  return y\n");
}

TEST(Sm90FewRows, TakesSixteenBitLayersOfEitherLayout) {
  EXPECT_EQ(Case(linear("bf16")).code(), "");
  EXPECT_EQ(Case(linear("f16", "16")).code(), "");
  EXPECT_EQ(
      Case(graph("x: bf16[M, K], w: bf16[K, N]", "  h = matmul x, w\n  y = silu h\n  return y\n"))
          .code(),
      "");
}

TEST(Sm90FewRows, SaysWhyItTakesNothingElse) {
  EXPECT_EQ(Case(linear("bf16", "17")).code(), "many_rows");
  EXPECT_EQ(Case(linear("f32")).code(), "operand_dtype");
  EXPECT_EQ(Case(graph("x: bf16[K, M], w: bf16[N, K]",
                       "  h = matmul x^T, w^T\n  y = silu h\n  return y\n"))
                .code(),
            "a_not_k_major");
  EXPECT_EQ(Case(graph("x: bf16[M, K], w: bf16[N, K]",
                       "  h = matmul x, w^T\n  y = silu h\n  s = row_sum y\n  return y, s\n"))
                .code(),
            "reduction");
  EXPECT_EQ(Case(graph("x: bf16[M, K], w: bf16[G, N, K], e: i32[G]",
                       "  h = grouped_matmul x, w^T, e\n  y = silu h\n  return y\n"))
                .code(),
            "groups");
}

TEST(Sm90FewRows, ConfigsOfAStepPrintDifferently) {
  std::set<std::string> names;
  const Case layer(linear("bf16"));
  const auto configs = few_rows_configs(layer.step());
  for (const Config& config : configs) names.insert(print(config));
  EXPECT_GE(configs.size(), 8u);
  EXPECT_EQ(names.size(), configs.size());
}

TEST(Sm90FewRows, AreChosenForAtMostSixteen) {
  const Case layer(linear("bf16"));
  for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{4096, 4096},
                             {4096, 14336},
                             {14336, 4096},
                             {6144, 4096}}) {
    for (const std::int64_t m : {1, 2, 4, 8, 16}) {
      const Config chosen = layer.chosen({1, m, n, k});
      EXPECT_TRUE(is_for_few_rows(chosen)) << print(chosen);
      EXPECT_EQ(chosen.tile_m, m <= 8 ? 8 : 16) << print(chosen);
    }
    for (const std::int64_t m : {17, 64, 4096}) {
      EXPECT_FALSE(is_for_few_rows(layer.chosen({1, m, n, k}))) << m;
    }
  }
}

TEST(Sm90FewRows, AreNotForMisalignedRowsNorForColumnMajorResults) {
  const Case layer(linear("bf16"));
  const Config config = few_rows_configs(layer.step()).front();
  EXPECT_TRUE(few_rows_fitted(config, {.non_tma_loads = 1, .unpaired = true}));
  EXPECT_FALSE(few_rows_fitted(config, {.swapped = true}));
  EXPECT_FALSE(few_rows_fitted(config, {.misaligned_b = true}));
}

TEST(Sm90FewRows, LaunchACtaForEachTileAndPartOfK) {
  const Case layer(graph("x: bf16[M, K], w: bf16[N, K], b: bf16[N], r: bf16[M, N], c: f32[]",
                         "  h = matmul x, w^T\n  t = add h, b\n  u = mul t, c\n"
                         "  y = add u, r\n  return y\n"));
  Bound bound;
  bound.sizes = {{"M", 5}, {"N", 40}, {"K", 128}};
  bound.tensors.resize(layer.plan.graph.nodes.size());
  bound.scalars.assign(bound.tensors.size(), 0.5);
  auto* const memory = reinterpret_cast<char*>(std::uintptr_t{1} << 20);  // never read
  for (std::size_t id = 0; id < bound.tensors.size(); ++id) {
    const Longs shape = ir::eval(layer.plan.graph.nodes[id].type.shape, bound.sizes);
    bound.tensors[id] = {memory + (id << 24), {0, shape, TensorView::dense_strides(shape)}};
  }
  int num_split = 0;
  for (const Config& config : few_rows_configs(layer.step())) {
    SCOPED_TRACE(print(config));
    const Launch launch = few_rows_launch(layer.plan, layer.step(), config, bound);
    const auto columns = static_cast<unsigned>((40 + config.tile_n - 1) / config.tile_n);
    const auto parts = static_cast<unsigned>(config.split_k);
    EXPECT_EQ(launch.grid, columns * parts);
    EXPECT_EQ(launch.cluster, parts);
    EXPECT_EQ(launch.block, static_cast<unsigned>(config.warps) * 32);
    EXPECT_TRUE(launch.maps.empty());
    num_split += config.split_k > 1 ? 1 : 0;
    abi::FewRowsParams params{};
    ASSERT_EQ(launch.params.size(), sizeof params);
    std::memcpy(&params, launch.params.data(), sizeof params);
    EXPECT_EQ(params.m, 5);
    EXPECT_EQ(params.b.row_stride, 128);
    EXPECT_EQ(params.rows[0].stride, 1);
    EXPECT_EQ(params.tiles[0].row_stride, 40);
    EXPECT_EQ(params.stores[0].row_stride, 40);
  }
  EXPECT_GT(num_split, 0);
}

}  // namespace
}  // namespace epifuse::codegen::sm90
