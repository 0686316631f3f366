// Which steps the kernel for few rows takes, when the model chooses it, and what it is launched on.
#include "codegen/sm90/few_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "ir/text.h"
#include "kernels/abi.h"
#include "tests/unit/codegen/dense_bound.h"
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
  // Of the configs that may be of the variant.
  Config chosen(const GemmSizes& sizes, const Variant& variant = {}) const {
    const KernelFamily& family = all_families().front();
    const targets::TargetInfo& target = *targets::find_target("sm_90a");
    const auto all = codegen::fitted(family, step(), family.configs(step(), target),
                                     make_variant(variant), target);
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

std::string along_m(const std::string& dtype) {
  return graph("x: " + dtype + "[K, M], w: " + dtype + "[N, K]",
               "  h = matmul x^T, w^T\n  y = silu h\n  return y\n");
}

TEST(Sm90FewRows, TakesSixteenBitLayersOfEitherLayout) {
  EXPECT_EQ(Case(linear("bf16")).code(), "");
  EXPECT_EQ(Case(linear("f16", "16")).code(), "");
  EXPECT_EQ(
      Case(graph("x: bf16[M, K], w: bf16[K, N]", "  h = matmul x, w\n  y = silu h\n  return y\n"))
          .code(),
      "");
  EXPECT_EQ(Case(along_m("bf16")).code(), "");
}

TEST(Sm90FewRows, SaysWhyItTakesNothingElse) {
  EXPECT_EQ(Case(linear("bf16", "513")).code(), "many_rows");
  EXPECT_EQ(Case(linear("f32")).code(), "operand_dtype");
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
  const Case layer(
      graph("x: bf16[M, K], w: bf16[K, N]", "  h = matmul x, w\n  y = silu h\n  return y\n"));
  const auto configs = few_rows_configs(layer.step());
  for (const Config& config : configs) names.insert(print(config));
  EXPECT_GE(configs.size(), 6u);
  EXPECT_EQ(names.size(), configs.size());
}

// At 16 rows of 2048x2048 ping-pong 64x32 took 11.4 us on an H100, few rows 16x16 12.0; 14.7 and
// 16.7 of 8192x1024.
TEST(Sm90FewRows, AreChosenForAtMostEightOfALayer) {
  const Case layer(linear("bf16"));
  for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{4096, 4096},
                             {4096, 14336},
                             {14336, 4096},
                             {6144, 4096}}) {
    for (const std::int64_t m : {1, 2, 4, 8}) {
      const Config chosen = layer.chosen({1, m, n, k});
      EXPECT_TRUE(is_for_few_rows(chosen)) << print(chosen);
    }
    for (const std::int64_t m : {17, 64, 4096}) {
      EXPECT_FALSE(is_for_few_rows(layer.chosen({1, m, n, k}))) << m;
    }
  }
}

// The configs for few rows that were within 3 % of the best of these at 1, 2, 4 and 8 rows on an
// H100 (2026-11-27, `epifuse bench --grid small --sweep`).
TEST(Sm90FewRows, AreChosenWhereTheyWereMeasuredAhead) {
  const std::string product = "x: bf16[M, K], w: bf16[N, K]";
  const Case bare(graph(product, "  h = matmul x, w^T\n  return h\n"));
  const Case residual(
      graph(product + ", r: bf16[M, N]", "  h = matmul x, w^T\n  y = add h, r\n  return y\n"));
  const Case bias(
      graph(product + ", b: bf16[N]", "  h = matmul x, w^T\n  y = add h, b\n  return y\n"));
  const Case gates(graph(product + ", v: bf16[N, K]",
                         "  g = matmul x, w^T\n  u = matmul x, v^T\n  s = silu g\n"
                         "  y = mul s, u\n  return y\n"));
  struct Measured {
    const Case* layer;
    std::int64_t n, k;
    std::set<std::string> best;
  };
  const std::string few = "few rows 8x16, 8 warps", deep = few + ", 2 CTAs an SM",
                    more_warps = "few rows 8x16, 16 warps";
  const std::vector<Measured> all = {
      {&bare, 6144, 4096, {few}},
      {&bare, 5120, 2048, {few}},
      {&residual, 4096, 4096, {few, deep}},
      {&residual, 4096, 14336, {few, deep}},
      {&residual, 2048, 4096, {deep, more_warps}},
      {&residual, 2048, 768, {deep, more_warps}},
      {&bias, 4608, 3584, {few}},
      {&residual, 3584, 3584, {few, deep}},
      {&gates, 14336, 4096, {"few rows 8x8, 8 warps"}},
      {&gates, 768, 2048, {"few rows 8x8, 8 warps, 2 CTAs an SM", "few rows 8x8, 16 warps"}},
  };
  for (const auto& [layer, n, k, best] : all) {
    for (const std::int64_t m : {1, 2, 4, 8}) {
      const std::string chosen = print(layer->chosen({1, m, n, k}));
      EXPECT_TRUE(best.contains(chosen)) << m << "x" << n << "x" << k << ": " << chosen;
    }
  }
}

// 11.0 and 11.7 us on an H100, where the best without so many parts of K took 13.4 and 14.7 and
// product and tail 14.3 and 13.5 (2026-11-26, `epifuse bench --sweep`).
TEST(Sm90FewRows, LongKOfFewColumnsIsShared) {
  const Case along_k(linear("bf16"));
  const Case along_n(
      graph("x: bf16[M, K], w: bf16[K, N]", "  h = matmul x, w\n  y = silu h\n  return y\n"));
  EXPECT_GE(along_k.chosen({1, 12, 192, 11520}).split_k, 4);
  EXPECT_GE(along_n.chosen({1, 2, 128, 12288}).split_k, 4);
  EXPECT_EQ(along_k.chosen({1, 1, 4096, 14336}).split_k, 1);
}

// As `__launch_bounds__` has it: "threads of a CTA, CTAs of an SM".
std::string bounds(const Case& of, const Config& config) {
  const std::string text =
      few_rows_source(of.plan, of.step(), config, *targets::find_target("sm_90a")).text;
  const std::size_t begin = text.find("__launch_bounds__(") + 18;
  return text.substr(begin, text.find(')', begin) - begin);
}

TEST(Sm90FewRows, SmallTilesLeaveRoomForMoreCtas) {
  const Case gates(graph("x: bf16[M, K], w: bf16[N, K], v: bf16[N, K]",
                         "  g = matmul x, w^T\n  u = matmul x, v^T\n  y = mul g, u\n"
                         "  return y\n"));
  const Case layer(linear("bf16"));
  const Case along_n(
      graph("x: bf16[M, K], w: bf16[K, N]", "  h = matmul x, w\n  y = silu h\n  return y\n"));
  const auto all = [](const Case& of) {
    std::vector<std::string> out;
    for (const Config& config : few_rows_configs(of.step())) {
      out.push_back(fmt::format("{}x{}: {}", config.tile_m, config.tile_n, bounds(of, config)));
    }
    return out;
  };
  using Strings = std::vector<std::string>;
  EXPECT_EQ(all(layer), (Strings{"16x16: 256, 3", "8x16: 256, 4", "8x16: 512, 2", "16x16: 512, 1",
                                 "8x16: 256, 4", "8x16: 256, 4", "16x16: 256, 3", "8x16: 256, 2"}));
  EXPECT_EQ(all(gates), (Strings{"8x8: 256, 4", "8x8: 512, 2", "16x8: 256, 3", "8x16: 256, 3",
                                 "16x16: 256, 2", "8x8: 256, 2"}));
  EXPECT_EQ(all(along_n), (Strings{"8x64: 256, 2", "8x64: 256, 2", "8x64: 256, 2", "8x32: 256, 3",
                                   "8x32: 256, 3", "16x64: 256, 1", "16x64: 256, 1",
                                   "16x32: 256, 3", "16x32: 256, 3", "8x32: 256, 3"}));
}

// For two CTAs of an SM these spilled (docs/gotchas-hopper.md).
TEST(Sm90FewRows, SharesOfKAndBatchesLeaveOneCtaWhereBothOperandsAreMoved) {
  const std::string body = "  h = matmul x^T, w\n  y = silu h\n  return y\n";
  const Case layer(graph("x: bf16[K, M], w: bf16[K, N]", body));
  const Case batch(graph("x: bf16[H, K, M], w: bf16[H, K, N]", body));
  const auto moved = [](const Case& of, int split_k) {
    for (const Config& config : few_rows_configs(of.step())) {
      if (config.tile_m != 16 || config.tile_n != 32 || config.split_k != split_k) continue;
      return bounds(of, few_rows_fitted(of.step(), config, {.misaligned_b = true}).value());
    }
    return std::string("there is none");
  };
  EXPECT_EQ(moved(layer, 1), "256, 2");
  EXPECT_EQ(moved(layer, 4), "256, 1");
  EXPECT_EQ(moved(batch, 1), "256, 1");
  EXPECT_EQ(moved(batch, 4), "256, 1");
}

TEST(Sm90FewRows, AreNotForColumnMajorResultsNorForMisalignedGates) {
  const Case layer(linear("bf16"));
  const Config config = few_rows_configs(layer.step()).front();
  EXPECT_EQ(few_rows_fitted(layer.step(), config, {.non_tma_loads = 1, .unpaired = true}), config);
  EXPECT_FALSE(few_rows_fitted(layer.step(), config, {.swapped = true}));
  const Case gates(graph("x: bf16[M, K], w: bf16[N, K], v: bf16[N, K]",
                         "  g = matmul x, w^T\n  u = matmul x, v^T\n  y = mul g, u\n"
                         "  return y\n"));
  const Config gate = few_rows_configs(gates.step()).front();
  EXPECT_TRUE(few_rows_fitted(gates.step(), gate, {.misaligned_a = true}));
  EXPECT_FALSE(few_rows_fitted(gates.step(), gate, {.misaligned_b = true}));
}

TEST(Sm90FewRows, FewerCtasLoadMoreStepsAheadInWholeVectorsAlone) {
  const Case layer(linear("bf16"));
  const Config config = few_rows_configs(layer.step()).back();
  EXPECT_EQ(print(config), "few rows 8x16, 8 warps, 2 CTAs an SM");
  EXPECT_EQ(config.stages, 3);
  EXPECT_EQ(few_rows_fitted(layer.step(), config, {}), config);
  EXPECT_FALSE(few_rows_fitted(layer.step(), config, {.misaligned_a = true}));
  EXPECT_FALSE(few_rows_fitted(layer.step(), config, {.misaligned_b = true}));
}

// What a thread loads of B and of A, and how many steps ahead.
std::string loads(const Case& layer, const Variant& variant) {
  const auto config =
      few_rows_fitted(layer.step(), few_rows_configs(layer.step()).front(), variant);
  const std::string text =
      few_rows_source(layer.plan, layer.step(), *config, *targets::find_target("sm_90a")).text;
  const auto value = [&](const std::string& constant) {
    const std::size_t begin = text.find(constant + " = ") + constant.size() + 3;
    return text.substr(begin, text.find(';', begin) - begin);
  };
  const std::string of_a = value("kLoadsOfA");
  return fmt::format("{}, {}, {}", value("kBIsShifted"), of_a.substr(of_a.rfind(':') + 1),
                     value("kDepth"));
}

TEST(Sm90FewRows, ReadMisalignedRowsByVectorsThatHoldThem) {
  const Case rows(linear("bf16")), columns(along_m("bf16"));
  const Case nn(
      graph("x: bf16[M, K], w: bf16[K, N]", "  h = matmul x, w\n  y = silu h\n  return y\n"));
  EXPECT_EQ(loads(rows, {}), "false, vectors, 1");
  EXPECT_EQ(loads(rows, {.misaligned_a = true, .misaligned_b = true}), "true, shifted, 1");
  EXPECT_EQ(loads(rows, {.misaligned_b = true}), "true, shifted, 1");
  EXPECT_EQ(loads(rows, {.misaligned_a = true}), "false, shifted, 1");
  EXPECT_EQ(loads(columns, {}), "false, elements, 1");
  EXPECT_EQ(loads(columns, {.misaligned_a = true, .misaligned_b = true}), "true, elements, 1");
  EXPECT_EQ(loads(nn, {.misaligned_a = true}), "false, elements, 3");
  EXPECT_EQ(loads(nn, {.misaligned_b = true}), "true, vectors, 2");
}

TEST(Sm90FewRows, AreChosenForMisalignedRowsOfAnyLayout) {
  const Case rows(linear("bf16")), columns(along_m("bf16"));
  const Variant both{.misaligned_a = true, .misaligned_b = true};
  EXPECT_TRUE(is_for_few_rows(rows.chosen({1, 5, 1289, 1772}, both)));
  EXPECT_TRUE(is_for_few_rows(columns.chosen({1, 2, 320, 548}, both)));
  EXPECT_FALSE(is_for_few_rows(rows.chosen({1, 2000, 1289, 1772}, both)));
  EXPECT_FALSE(is_for_few_rows(rows.chosen({1, 723, 127, 697}, both)));
  const Case nn(
      graph("x: bf16[K, M], w: bf16[K, N]", "  h = matmul x^T, w\n  y = silu h\n  return y\n"));
  EXPECT_TRUE(is_for_few_rows(nn.chosen({1, 13, 80, 13952}, {.misaligned_a = true})));
}

TEST(Sm90FewRows, LaunchACtaForEachTileAndPartOfK) {
  const Case layer(graph("x: bf16[M, K], w: bf16[K, N], b: bf16[N], r: bf16[M, N], c: f32[]",
                         "  h = matmul x, w\n  t = add h, b\n  u = mul t, c\n"
                         "  y = add u, r\n  return y\n"));
  Bound bound = dense_bound(layer.plan, {{"M", 5}, {"N", 40}, {"K", 128}});
  bound.scalars.assign(bound.tensors.size(), 0.5);
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
    EXPECT_EQ(params.b.col_stride, 40);
    EXPECT_EQ(params.rows[0].stride, 1);
    EXPECT_EQ(params.tiles[0].row_stride, 40);
    EXPECT_EQ(params.stores[0].row_stride, 40);
  }
  EXPECT_GT(num_split, 0);
}

}  // namespace
}  // namespace epifuse::codegen::sm90
