#include "codegen/sm90/few_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/ceil_div.h"
#include "base/check.h"
#include "codegen/epilogue_cuda.h"
#include "codegen/epilogue_layout.h"
#include "codegen/matrix_view.h"
#include "codegen/sm90/dense.h"
#include "codegen/sm90/few_rows_loads.h"
#include "codegen/source_text.h"
#include "kernels/abi.h"

namespace epifuse::codegen::sm90 {
namespace {

using plan::FusedGemm;
using plan::WhyNot;

struct Shape {
  int rows, columns;
  std::int16_t warps;
  int split_k;
  std::int16_t ctas = 0;
};
// Ahead at points of `small` on an H100; 16 warps where CTAs are too few; or only measured.
constexpr Shape kAlongK[] = {{16, 16, 8, 1}, {8, 16, 8, 1}, {8, 16, 16, 1}, {16, 16, 16, 1},
                             {8, 16, 8, 4},  {8, 16, 8, 8}, {16, 16, 8, 8}, {8, 16, 8, 1, 2}};
constexpr Shape kGatesAlongK[] = {{8, 8, 8, 1},  {8, 8, 16, 1},  {16, 8, 8, 1},
                                  {8, 16, 8, 1}, {16, 16, 8, 1}, {8, 8, 8, 1, 2}};
// Of weights that are widened, whose bytes are half of those of A: more columns share it.
constexpr Shape kWidened[] = {{8, 16, 8, 1},  {8, 32, 8, 1}, {16, 32, 8, 1}, {16, 16, 8, 1},
                              {8, 16, 16, 1}, {8, 16, 8, 4}, {16, 32, 8, 4}, {8, 16, 8, 1, 2}};
constexpr Shape kWidenedGates[] = {
    {8, 8, 8, 1}, {8, 16, 8, 1}, {16, 16, 8, 1}, {16, 32, 8, 1}, {8, 8, 16, 1}};
constexpr Shape kAlongN[] = {{8, 64, 8, 1},  {8, 64, 8, 2},  {8, 64, 8, 4},  {8, 32, 8, 1},
                             {8, 32, 8, 4},  {16, 64, 8, 1}, {16, 64, 8, 2}, {16, 32, 8, 1},
                             {16, 32, 8, 4}, {8, 32, 8, 8}};

constexpr std::string_view kLoadsOfA[] = {"vectors", "shifted", "elements"};

std::span<const Shape> shapes_of_widened(const FusedGemm& step) {
  if (step.epilogue.num_accumulators > 1) return kWidenedGates;
  return kWidened;
}

int sums_bytes(const Config& config) {
  return config.warps * config.products * config.tile_m * config.tile_n *
         static_cast<int>(sizeof(float));
}

abi::Matrix matrix(const MatrixView& view) {
  return {const_cast<void*>(view.data),
          view.row_stride,
          view.col_stride,
          {view.outer_stride, view.inner_stride}};
}

abi::Vector vector(const MatrixView& view, std::int64_t stride) {
  return {view.data, stride, {view.outer_stride, view.inner_stride}};
}

void bind_load(const Place& place, const MatrixView& view, abi::FewRowsParams& params) {
  switch (place.list) {
    case List::scalars: params.scalars[place.index] = vector(view, 0); break;
    case List::rows: params.rows[place.index] = vector(view, view.col_stride); break;
    case List::cols: params.cols[place.index] = vector(view, view.row_stride); break;
    case List::tiles: params.tiles[place.index] = matrix(view); break;
    case List::parameters:
    case List::results:
    case List::partials: break;
  }
}

}  // namespace

std::optional<WhyNot> why_not_few_rows(const FusedGemm& step) {
  const plan::GemmDesc& gemm = step.gemm;
  const std::int64_t most = most_rows_taken(gemm);
  if (const auto m = gemm.m.constant(); m && *m > most) {
    return WhyNot{"many_rows", fmt::format("it has {} rows; few are at most {}.", *m, most)};
  }
  if (size_bytes(gemm.a.dtype) != kElementBytes) {
    return WhyNot{"operand_dtype", fmt::format("it multiplies {}; few rows are bf16 or f16.",
                                               epifuse::name(gemm.a.dtype))};
  }
  if (gemm.is_grouped()) return WhyNot{"groups", "its rows belong to groups."};
  if (gemm.is_k_grouped()) return WhyNot{"groups", "K is cut by groups."};
  if (has_adjacent_gates(gemm)) {
    return WhyNot{"gates", "columns of its two products alternate in memory."};
  }
  if (step.epilogue.reduces() || step.epilogue.has_blocks()) {
    return WhyNot{"reduction", "its epilogue reduces."};
  }
  const EpilogueLayout layout(step.epilogue);
  const auto is_indexed = [](const Place& place) { return place.is_indexed; };
  if (std::ranges::any_of(layout.loads(), is_indexed) ||
      std::ranges::any_of(layout.stores(), is_indexed)) {
    return WhyNot{"lookup", "rows of its epilogue's operands go by an index."};
  }
  return std::nullopt;
}

std::optional<WhyNot> why_not_widened(const plan::Plan& plan, const FusedGemm& step) {
  const plan::GemmDesc& gemm = step.gemm;
  for (const plan::Operand* operand : {&gemm.a, &gemm.b, &gemm.second_b}) {
    if (operand->value < 0) continue;
    if (auto no = why_not_beside_widened(plan, *operand, operand == &gemm.a ? "a" : "b")) return no;
  }
  if (gemm.has_groups() || gemm.a.lookup >= 0) {
    return WhyNot{"groups",
                  "its rows belong to groups, or are looked up, and weights are widened."};
  }
  const auto m = gemm.m.constant();
  if (!m || *m <= kMostRowsWidened || *m >= kFewestRowsOfTiles) return std::nullopt;
  return WhyNot{"some_rows",
                fmt::format("it has {} rows; of {} to {} another family multiplies widened weights "
                            "in less time.",
                            *m, kMostRowsWidened + 1, kFewestRowsOfTiles - 1)};
}

std::vector<Config> few_rows_configs(const FusedGemm& step) {
  std::vector<Config> out;
  if (why_not_few_rows(step)) return out;
  const auto add = [&](const Shape& shape) {
    Config config;
    config.tile_m = shape.rows;
    config.tile_n = shape.columns;
    config.warps = shape.warps;
    config.split_k = shape.split_k;
    config.ctas = shape.ctas;
    config.products = step.epilogue.num_accumulators;
    config.stages = occupancy(config, loads_of(step.gemm, config)).depth;
    if (config.stages > 0) out.push_back(config);
  };
  if (step.gemm.widens_b()) {
    for (const Shape& shape : shapes_of_widened(step)) add(shape);
  } else if (step.gemm.b.major != plan::Major::k) {
    std::ranges::for_each(kAlongN, add);
  } else if (step.epilogue.num_accumulators > 1) {
    std::ranges::for_each(kGatesAlongK, add);
  } else {
    std::ranges::for_each(kAlongK, add);
  }
  return out;
}

std::optional<Config> few_rows_fitted(const FusedGemm& step, const Config& config,
                                      const Variant& variant) {
  // Where roles are swapped the rows are those of B, few or not.
  const bool needs_vectors = config.products > 1 || step.gemm.widens_b();
  if (variant.swapped || (needs_vectors && variant.misaligned_b)) return std::nullopt;
  if (step.gemm.widens_b() && variant.misaligned_a) return std::nullopt;
  Config out = config;
  set_rows(step.gemm, variant, out);
  if (config.ctas > 0 && !takes_vectors(loads_of(step.gemm, out))) return std::nullopt;
  if (is_misaligned(out)) out.stages = occupancy(out, loads_of(step.gemm, out)).depth;
  if (out.stages == 0) return std::nullopt;
  return out;
}

namespace {

// `stem`: of the entry's name; `params`: the type of its parameter.
KernelSource source_of(const plan::Plan& plan, const FusedGemm& step, const Config& config,
                       const targets::TargetInfo& target, std::string_view stem,
                       std::string_view params) {
  constexpr std::string_view kText = R"(struct Config {{
  using Operand = {operand};
  using OperandB = {operand_b};
  static constexpr int kProducts = {products};
  static constexpr bool kBIsKMajor = {k_major};
  static constexpr bool kBIsShifted = {shifted};
  static constexpr auto kLoadsOfA = sm90::LoadsOfA::{loads_of_a};
  static constexpr bool kIsBatched = {batched};
  static constexpr int kRows = {rows};
  static constexpr int kColumns = {columns};
  static constexpr int kWarps = {warps};  // that share K
  static constexpr int kSplitK = {split_k};  // CTAs of a cluster that share K
  static constexpr int kDepth = {depth};  // steps that are loaded ahead
}};

{epilogue})";
  const Loads loads = loads_of(step.gemm, config);
  KernelParts parts;
  parts.comment =
      fmt::format("{}: {} x {} of few rows, numerics {}\n{}\n{}", plan.graph.name,
                  plan.graph[step.gemm.a.value].name, plan.graph[step.gemm.b.value].name,
                  epifuse::name(plan.numerics), print(config), plan::print(step.epilogue));
  parts.includes =
      "\n#include \"kernels/sm90/few_rows.cuh\"\n\n#include \"kernels/common/math.cuh\"\n";
  parts.generated = fmt::format(
      fmt::runtime(kText), fmt::arg("operand", element_cuda(step.gemm.a.dtype)),
      fmt::arg("operand_b", element_cuda(step.gemm.b.dtype)), fmt::arg("products", config.products),
      fmt::arg("k_major", loads.is_k_major), fmt::arg("shifted", loads.is_shifted),
      fmt::arg("loads_of_a", kLoadsOfA[static_cast<std::size_t>(loads.of_a)]),
      fmt::arg("batched", loads.is_batched), fmt::arg("rows", config.tile_m),
      fmt::arg("columns", config.tile_n), fmt::arg("warps", config.warps),
      fmt::arg("split_k", config.split_k), fmt::arg("depth", config.stages),
      fmt::arg("epilogue", epilogue_cuda(step.epilogue, plan.numerics)));
  parts.bounds = fmt::format("{}, {}", config.warps * kWarpThreads, occupancy(config, loads).ctas);
  parts.entry = entry_name(stem, step.epilogue);
  parts.params = fmt::format("abi::{}", params);
  parts.body =
      "  using namespace epifuse;\n"
      "  sm90::few_rows<generated::Config, generated::Epilogue>(p);\n";
  return kernel_source(target, parts);
}

}  // namespace

KernelSource few_rows_source(const plan::Plan& plan, const FusedGemm& step, const Config& config,
                             const targets::TargetInfo& target) {
  return source_of(plan, step, config, target, "few_rows", "FewRowsParams");
}

KernelSource few_rows_side_by_side_source(const plan::Plan& plan, const FusedGemm& step,
                                          const Config& config, const targets::TargetInfo& target) {
  return source_of(plan, step, config, target, "side_by_side", "FewRowsSideBySideParams");
}

Launch few_rows_side_by_side_launch(std::span<const Launch> parts) {
  EPIFUSE_CHECK(!parts.empty() && parts.size() <= abi::kMostSideBySide, "as many as there is room");
  abi::FewRowsSideBySideParams params{};
  Launch out = parts.front();
  out.grid = 0;
  for (std::size_t i = 0; i < abi::kMostSideBySide; ++i) {
    if (i < parts.size()) {
      EPIFUSE_CHECK(parts[i].params.size() == sizeof params.parts[i], "parts are for few rows");
      std::memcpy(&params.parts[i], parts[i].params.data(), sizeof params.parts[i]);
      out.grid += parts[i].grid;
    }
    params.ends[i] = static_cast<int>(out.grid);
  }
  set_params(out, &params, sizeof params);
  return out;
}

Launch few_rows_launch(const plan::Plan& plan, const FusedGemm& step, const Config& config,
                       const Bound& bound) {
  WhyNot why;
  const auto views = gemm_views(plan, step, bound, &why);
  EPIFUSE_CHECK(views.has_value(), "tensors are checked by why_not_bound");
  const EpilogueLayout layout(step.epilogue);
  abi::FewRowsParams params{};
  params.m = static_cast<int>(views->a.rows);
  params.n = static_cast<int>(views->b.rows);
  params.k = static_cast<int>(views->a.cols);
  params.batch_inner = static_cast<int>(views->batch_inner);
  params.a = matrix(views->a);
  params.b = matrix(views->b);
  if (step.gemm.gating != plan::Gating::none) params.second_b = matrix(views->second_b);
  for (std::size_t i = 0; i < views->loads.size(); ++i) {
    bind_load(layout.loads()[i], views->loads[i], params);
  }
  for (std::size_t i = 0; i < views->stores.size(); ++i) {
    params.stores[layout.stores()[i].index] = matrix(views->stores[i]);
  }
  layout.set_parameters(bound.scalars, params.parameters);
  Launch out;
  out.grid = static_cast<unsigned>(
      views->batch_inner * views->batch_outer * ceil_div(params.m, config.tile_m) *
      column_tiles(config, loads_of(step.gemm, config), params.n) * config.split_k);
  out.cluster = static_cast<unsigned>(config.split_k);
  out.block = static_cast<unsigned>(config.warps * kWarpThreads);
  out.smem_bytes = static_cast<unsigned>(sums_bytes(config));
  out.overlaps_previous = true;
  set_params(out, &params, sizeof params);
  return out;
}

}  // namespace epifuse::codegen::sm90
