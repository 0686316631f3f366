#include "codegen/sm90/few_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/ceil_div.h"
#include "base/check.h"
#include "codegen/epilogue_cuda.h"
#include "codegen/epilogue_layout.h"
#include "codegen/matrix_view.h"
#include "codegen/sm90/dense.h"
#include "codegen/sm90/model_constants.h"
#include "codegen/source_text.h"
#include "kernels/abi.h"

namespace epifuse::codegen::sm90 {
namespace {

using plan::FusedGemm;
using plan::WhyNot;

constexpr int kWarpThreads = 32, kLoadBytes = 16;
constexpr int kWholeColumns = 64;  // along N, of which threads read 16 bytes each
constexpr int kElementBytes = 2;   // of bf16 and f16

struct Shape {
  int rows, columns, warps, split_k;
};
// Ahead at points of `small` on an H100; 16 warps where CTAs are too few; or only measured.
constexpr Shape kAlongK[] = {{16, 16, 8, 1}, {8, 16, 8, 1}, {8, 16, 16, 1}, {16, 16, 16, 1}};
constexpr Shape kGatesAlongK[] = {
    {8, 8, 8, 1}, {8, 8, 16, 1}, {16, 8, 8, 1}, {8, 16, 8, 1}, {16, 16, 8, 1}};
constexpr Shape kAlongN[] = {{8, 64, 8, 1},  {8, 64, 8, 2},  {8, 64, 8, 4},
                             {8, 32, 8, 1},  {8, 32, 8, 4},  {16, 64, 8, 1},
                             {16, 64, 8, 2}, {16, 32, 8, 1}, {16, 32, 8, 4}};

bool is_k_major(const plan::Operand& operand) { return operand.major == plan::Major::k; }

// As kernels/sm90/few_rows_tile.cuh has them.
enum class LoadsOfA { vectors, shifted, elements };
constexpr std::string_view kLoadsOfA[] = {"vectors", "shifted", "elements"};

// How a thread reads its operands.
struct Loads {
  bool is_k_major, is_shifted;  // B
  LoadsOfA of_a;
};
Loads loads_of(const plan::GemmDesc& gemm, const Config& config) {
  const bool is_b_k_major = is_k_major(gemm.b),
             is_shifted = config.rows_b != targets::Rows::aligned;
  const bool is_usual = is_k_major(gemm.a) && config.rows_a == targets::Rows::aligned;
  if (is_b_k_major && is_shifted && is_k_major(gemm.a)) return {true, true, LoadsOfA::shifted};
  const bool takes_vectors = is_usual && !(is_b_k_major && is_shifted);
  return {is_b_k_major, is_shifted, takes_vectors ? LoadsOfA::vectors : LoadsOfA::elements};
}

int sums_bytes(const Config& config) {
  return config.warps * config.products * config.tile_m * config.tile_n *
         static_cast<int>(sizeof(float));
}

// 16 bytes each that a thread multiplies of B in a step. Of 32 columns along N a load is 8.
int vectors_of_step(const Config& config, const Loads& loads) {
  return config.products * config.tile_n / (loads.is_k_major ? 4 : 8);
}

// What holds them and those of A, also 16 bytes each.
int loads_of_step(const Config& config, const Loads& loads) {
  const int of_b = vectors_of_step(config, loads), row_blocks = config.tile_m / 8;
  const int held = !loads.is_shifted ? of_b : loads.is_k_major ? of_b * 3 / 2 : of_b * 2;
  switch (loads.of_a) {
    case LoadsOfA::vectors: return held + row_blocks * (loads.is_k_major ? 2 : 1);
    case LoadsOfA::shifted: return held + row_blocks * 3;
    case LoadsOfA::elements: break;  // each has a register
  }
  return held + row_blocks * (loads.is_k_major ? 4 : 2);
}

bool takes_vectors(const Loads& loads) {
  return loads.is_k_major && !loads.is_shifted && loads.of_a == LoadsOfA::vectors;
}

// How many CTAs an SM has at once, and the steps that each loads ahead, in as many registers as
// that leaves a thread: at least two, or of a CTA alone one. Of many CTAs one is enough: where
// loads are of 8 bytes, or whole vectors along K. Beside operands and sums there are addresses, and
// operands that are moved into their order.
struct Occupancy {
  int ctas = 0, depth = 0;
};
Occupancy occupancy(const Config& config, const Loads& loads) {
  constexpr int kDeepest = 4;
  constexpr int kOfSecondProduct = 8, kOfHalves = 8;  // registers, as all that follow
  struct Room {
    int threads;                 // of an SM
    int registers, where_moved;  // of a thread for operands and sums
    int fewest_steps = 2;
    bool for_vectors_alone = false;
  };
  constexpr Room kRooms[] = {
      {1024, 38, 0, 1, true}, {768, 60, 52}, {512, 88, 80}, {256, 210, 152, 1}};
  const int step = kLoadBytes / 4 * loads_of_step(config, loads);
  const int sums = config.products * config.tile_m * config.tile_n / kWarpThreads;
  const bool reads_halves = !loads.is_k_major && config.tile_n % kWholeColumns != 0;
  const int besides =
      (config.products - 1) * kOfSecondProduct + (reads_halves ? kOfHalves : 0) + sums;
  const bool moves = loads.is_shifted || loads.of_a != LoadsOfA::vectors;
  const int threads = config.warps * kWarpThreads;
  for (const Room& room : kRooms) {
    if (room.threads % threads != 0 || (room.for_vectors_alone && !takes_vectors(loads))) continue;
    const int left = (moves ? room.where_moved : room.registers) - besides;
    const int depth = std::min(left / step, reads_halves ? 1 : kDeepest);
    const int fewest = reads_halves || takes_vectors(loads) ? 1 : room.fewest_steps;
    if (depth >= fewest) return {room.threads / threads, depth};
  }
  return {};
}

// Whether CTAs fill an SM.
bool fills(const Config& config, const Occupancy& of_sm) {
  constexpr int kThreads = 1024;
  return of_sm.ctas * config.warps * kWarpThreads >= kThreads;
}

// By how much loads that are not of whole vectors in place hold each step up.
double loads_slow(const Loads& loads) {
  constexpr double kShifted = 1.3, kElements = 2, kShiftedBesideElements = 5;  // measured
  const double of_b = loads.is_shifted && loads.is_k_major ? kShiftedBesideElements : 1;
  if (loads.of_a == LoadsOfA::elements) return kElements * of_b;
  return loads.of_a == LoadsOfA::shifted || loads.is_shifted ? kShifted : 1;
}

// Rows up to which the model holds: 723 of shifted loads took 64 us, other kernels 15 (an H200).
std::int64_t most_rows(const Loads& loads) {
  constexpr std::int64_t kMostOfElements = 512;
  if (loads.of_a == LoadsOfA::shifted) return kMostFewRows;
  return loads.of_a == LoadsOfA::elements ? kMostOfElements : kMostRowsTaken;
}

// What the other terms do not tell, along K: CTAs that leave room on their SM, and 16 warps where
// those of 8 would be enough.
double correction(const Config& config, const Loads& loads, const Occupancy& of_sm,
                  std::int64_t ctas, std::int64_t num_sms) {
  constexpr double kUnfilled = 1.08, kManyWarps = 1.1;
  constexpr int kUsualWarps = 8;
  const double unfilled = loads.is_k_major && !fills(config, of_sm) ? kUnfilled : 1;
  return unfilled * (config.warps > kUsualWarps && ctas > num_sms ? kManyWarps : 1);
}

// Until a CTA's sums are there, its waves one after another.
double steps_us(const ModelConstants& c, const Config& config, const Loads& loads, std::int64_t k,
                std::int64_t ctas, std::int64_t num_sms) {
  constexpr double kBlockRows = 0.28;    // of a step's work, each further block of 8 rows
  constexpr double kFurtherWave = 1.31;  // of the first one
  constexpr double kUsualWarps = 8;
  const int step_k = loads.is_k_major ? 64 : 32, at_once = std::max(config.stages, 1);
  const auto steps = static_cast<double>(
      ceil_div(k, static_cast<std::int64_t>(step_k * config.warps * config.split_k)));
  const int of_sm = std::max(occupancy(config, loads).ctas, 1);
  const auto waves = static_cast<double>(ceil_div(ctas, num_sms * of_sm));
  const auto beside = static_cast<double>(std::min<std::int64_t>(ceil_div(ctas, num_sms), of_sm));
  const double vector = loads.is_k_major ? c.few_rows_vector_us : c.few_rows_n_vector_us;
  const double work = steps * vectors_of_step(config, loads) * vector * beside *
                      (1 + kBlockRows * (config.tile_m / 8 - 1)) * config.warps / kUsualWarps;
  const double waits = c.few_rows_step_us * (1 + (steps - 1) / std::sqrt(at_once));
  const double first = (waits + work) * loads_slow(loads) + c.few_rows_wave_us;
  return first * (1 + kFurtherWave * (waves - 1));
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
  const auto m = gemm.m.constant();
  if (m && *m > kMostRowsTaken) {
    return WhyNot{"many_rows",
                  fmt::format("it has {} rows; few are at most {}.", *m, kMostRowsTaken)};
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

std::vector<Config> few_rows_configs(const FusedGemm& step) {
  std::vector<Config> out;
  if (why_not_few_rows(step)) return out;
  const auto add = [&](const Shape& shape) {
    Config config;
    config.tile_m = shape.rows;
    config.tile_n = shape.columns;
    config.warps = shape.warps;
    config.split_k = shape.split_k;
    config.products = step.epilogue.num_accumulators;
    config.stages = occupancy(config, loads_of(step.gemm, config)).depth;
    if (config.stages > 0) out.push_back(config);
  };
  if (!is_k_major(step.gemm.b)) {
    std::ranges::for_each(kAlongN, add);
  } else if (step.epilogue.num_accumulators > 1) {
    std::ranges::for_each(kGatesAlongK, add);
  } else {
    std::ranges::for_each(kAlongK, add);
  }
  return out;
}

// One after the other: a start, the steps of K, memory's bytes and those that L2 delivers: B to
// each row of tiles, and A's rows behind the first 8 to each CTA.
double few_rows_us(const FusedGemm& step, const Config& config, const GemmSizes& sizes,
                   const targets::DeviceProfile& device) {
  constexpr double kOfA = 0.7;     // of its bytes, which neighbours share
  constexpr double kTooMany = 10;  // so that the model does not choose it
  constexpr std::int64_t kBlock = 8;
  const ModelConstants c = constants_of(device);
  const auto m = static_cast<double>(sizes.m), n = static_cast<double>(sizes.n);
  const auto k = static_cast<double>(sizes.k), batch = static_cast<double>(sizes.batch);
  const std::int64_t row_tiles = ceil_div(sizes.m, config.tile_m), num_sms = device.limits.num_sms;
  const std::int64_t ctas =
      sizes.batch * row_tiles * ceil_div(sizes.n, config.tile_n) * config.split_k;
  const Loads loads = loads_of(step.gemm, config);
  const Pressure load = pressure(step.epilogue);
  const double full = load.load_slots + load.store_slots;
  const double of_b = batch * n * k * config.products * kElementBytes;
  const double bytes = of_b + batch * (m * k + m * n * full) * kElementBytes;
  const std::int64_t blocks = ceil_div(std::min<std::int64_t>(config.tile_m, sizes.m), kBlock);
  const double of_a =
      static_cast<double>(ctas / config.split_k * (blocks - 1) * kBlock) * k * kElementBytes;
  const double l2 = static_cast<double>(row_tiles) * of_b + kOfA * of_a;
  const double cta = c.few_rows_cta_us * (config.warps / 8.0 - 0.5) * static_cast<double>(ctas) /
                     static_cast<double>(num_sms);
  const double us = c.few_rows_launch_us + c.few_rows_cluster_us * std::sqrt(config.split_k - 1) +
                    steps_us(c, config, loads, sizes.k, ctas, num_sms) +
                    bytes / c.few_rows_bytes_per_us + l2 / c.few_rows_l2_bytes_per_us + cta +
                    c.few_rows_load_us * load.load_slots;
  if (sizes.m > most_rows(loads)) return kTooMany * us;
  return us * correction(config, loads, occupancy(config, loads), ctas, num_sms);
}

std::optional<Config> few_rows_fitted(const FusedGemm& step, const Config& config,
                                      const Variant& variant) {
  // Where roles are swapped the rows are those of B, few or not.
  if (variant.swapped || (config.products > 1 && variant.misaligned_b)) return std::nullopt;
  Config out = config;
  set_rows(step.gemm, variant, out);
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
  parts.generated =
      fmt::format(fmt::runtime(kText), fmt::arg("operand", element_cuda(step.gemm.a.dtype)),
                  fmt::arg("products", config.products), fmt::arg("k_major", loads.is_k_major),
                  fmt::arg("shifted", loads.is_shifted),
                  fmt::arg("loads_of_a", kLoadsOfA[static_cast<std::size_t>(loads.of_a)]),
                  fmt::arg("batched", !step.gemm.batch.empty()), fmt::arg("rows", config.tile_m),
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
  out.grid = static_cast<unsigned>(views->batch_inner * views->batch_outer *
                                   ceil_div(params.m, config.tile_m) *
                                   ceil_div(params.n, config.tile_n) * config.split_k);
  out.cluster = static_cast<unsigned>(config.split_k);
  out.block = static_cast<unsigned>(config.warps * kWarpThreads);
  out.smem_bytes = static_cast<unsigned>(sums_bytes(config));
  out.overlaps_previous = true;
  set_params(out, &params, sizeof params);
  return out;
}

}  // namespace epifuse::codegen::sm90
