// From bound tensors to the launch of a cp.async + mma.sync GEMM: which variant they need, and its
// parameters.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "base/check.h"
#include "codegen/block_scales.h"
#include "codegen/partials.h"
#include "codegen/row_groups.h"
#include "codegen/sm80/gemm.h"
#include "epifuse/tensor.h"
#include "kernels/abi.h"

namespace epifuse::codegen::sm80 {
namespace {

using plan::FusedGemm;
using plan::WhyNot;

constexpr std::size_t kGemmAt = offsetof(abi::CopiedGemmParams, gemm);
constexpr int kVector = 4;  // elements that a thread reads or writes at once: kernels/sm80

abi::BatchStrides batch_strides(const MatrixView& view) {
  return {view.outer_stride, view.inner_stride};
}
abi::Matrix matrix(const MatrixView& view) {
  return {const_cast<void*>(view.data), view.row_stride, view.col_stride, batch_strides(view)};
}

GemmViews require_views(const plan::Plan& plan, const FusedGemm& step, const Bound& bound) {
  WhyNot why;
  const auto views = gemm_views(plan, step, bound, &why);
  EPIFUSE_CHECK(views.has_value(), "tensors are checked by why_not_bound");
  return *views;
}

// The largest power of 2 up to `most` at whose multiples all rows of a matrix start, in bytes. A
// single row that is looked up may be any of a table.
int alignment(const MatrixView& rows, DType dtype, int most, bool is_looked_up) {
  const auto bytes = static_cast<std::int64_t>(size_bytes(dtype));
  auto starts = reinterpret_cast<std::intptr_t>(rows.data) | most;
  if (rows.rows > 1 || is_looked_up) starts |= rows.row_stride * bytes;
  starts |= rows.inner_stride * bytes | rows.outer_stride * bytes;
  return static_cast<int>(starts & -starts);
}

// Of all that is copied of an operand. Where groups start along M, or along K, is not known.
int alignment_of(const plan::GemmDesc& gemm, const plan::Operand& operand, const MatrixView& view,
                 bool is_a) {
  constexpr int kUnitBytes = 16;
  if (view.cols == 0) return kUnitBytes;  // nothing is
  const bool is_k_major = operand.major == plan::Major::k;
  const bool starts_anywhere =
      gemm.is_k_grouped() ? is_k_major : is_a && has_rows_of_groups(gemm) && !is_k_major;
  const int most = starts_anywhere ? static_cast<int>(size_bytes(operand.dtype)) : kUnitBytes;
  return alignment(rows_of(operand, view), operand.dtype, most, operand.lookup >= 0);
}

int alignment_of_b(const plan::GemmDesc& gemm, const plan::Operand& b, const GemmViews& views) {
  const MatrixView first = has_adjacent_gates(gemm) ? both_gates(views.b) : views.b;
  const int of_first = alignment_of(gemm, b, first, false);
  if (gemm.gating == plan::Gating::none || has_adjacent_gates(gemm)) return of_first;
  return std::min(of_first, alignment_of(gemm, b, views.second_b, false));
}

// Bits of those whose vectors of elements cannot be read or written at once.
unsigned non_tma_bits(const std::vector<FullSize>& matrices) {
  unsigned bits = 0;
  for (const FullSize& full : matrices) {
    if (full.place.is_block) continue;  // one element a block
    const int vector = kVector * static_cast<int>(size_bytes(full.dtype));
    const bool is_contiguous = full.view.col_stride == 1 || full.view.cols == 1;
    if (is_contiguous && alignment(full.view, full.dtype, vector, full.place.is_indexed) == vector)
      continue;
    bits |= 1u << full.place.index;
  }
  return bits;
}

// Of scratch: a counter for each tile, then the sums.
std::size_t arrival_bytes(std::int64_t tiles) {
  constexpr std::int64_t kUnit = 256;
  return static_cast<std::size_t>(ceil_div(tiles * std::int64_t{sizeof(int)}, kUnit) * kUnit);
}

// Fills the parameter block.
class Binder {
 public:
  Binder(const plan::Plan& plan, const FusedGemm& step, const Config& config,
         const Variant& variant, const Bound& bound)
      : step_(step), layout_(step.epilogue, variant.swapped), config_(config), variant_(variant) {
    views_ = require_views(plan, step, bound);
    if (variant.swapped) views_ = exchanged(views_);
    bind_operands();
    bind_epilogue(bound);
    bind_integers(plan, step, layout_, bound, params_);
    bind_block_scales(variant.swapped ? exchanged(step).gemm : step.gemm, views_,
                      has_adjacent_gates(step.gemm), params_);
    scratch_ = static_cast<char*>(bound.scratch);
  }

  Launch launch(int num_sms) {
    const std::int64_t groups = has_rows_of_groups(step_.gemm) ? params_.groups.num_rows : 0;
    const GemmSizes sizes{groups > 0 ? 1 : params_.batch, views_.a.rows, views_.b.rows,
                          views_.a.cols, groups};
    const Tiling tiling = tile(config_, sizes, num_sms);
    params_.raster = tiling.raster;
    if (config_.split_k > 1) {
      block_.split = {scratch_ + arrival_bytes(tiling.tiles), reinterpret_cast<int*>(scratch_)};
    }
    Launch out;
    const std::int64_t at_once = std::int64_t{num_sms} * config_.ctas;
    out.grid = static_cast<unsigned>(is_persistent(config_) ? std::min(tiling.tiles, at_once)
                                                            : tiling.tiles * config_.split_k);
    out.block = static_cast<unsigned>(num_threads(config_));
    out.smem_bytes = static_cast<unsigned>(smem_bytes(config_));
    out.overlaps_previous = config_.split_k == 1;  // else zeros are written right before
    set_params(out, &block_, params_bytes(layout_, config_));
    return out;
  }

 private:
  void bind_operands() {
    params_.m = static_cast<int>(views_.a.rows);
    params_.n = static_cast<int>(views_.b.rows);
    params_.k = static_cast<int>(views_.a.cols);
    params_.batch_inner = static_cast<int>(views_.batch_inner);
    params_.batch = static_cast<int>(views_.batch_inner * views_.batch_outer);
    block_.a = matrix(views_.a);
    block_.b = matrix(has_adjacent_gates(step_.gemm) ? both_gates(views_.b) : views_.b);
    if (step_.gemm.gating != plan::Gating::none) block_.second_b = matrix(views_.second_b);
  }

  void bind_epilogue(const Bound& bound) {
    for (std::size_t i = 0; i < views_.loads.size(); ++i) {
      const Place& place = layout_.loads()[i];
      const MatrixView& view = views_.loads[i];
      switch (place.list) {
        case List::scalars: at<abi::Vector>(place) = {view.data, 0, batch_strides(view)}; break;
        case List::rows:
          at<abi::Vector>(place) = {view.data, view.col_stride, batch_strides(view)};
          break;
        case List::cols:
          at<abi::Vector>(place) = {view.data, view.row_stride, batch_strides(view)};
          break;
        case List::tiles: at<abi::Matrix>(place) = matrix(view); break;
        default: break;
      }
    }
    layout_.set_parameters(bound.scalars, params_.parameters);
    for (std::size_t i = 0; i < views_.stores.size(); ++i) {
      const Place& place = layout_.stores()[i];
      MatrixView view = views_.stores[i];
      if (place.list == List::results) {
        at<abi::Matrix>(place) = matrix(view);
      } else {  // partial results have the kernel's own orientation
        if (variant_.swapped) view = transposed(view);
        at<abi::Partials>(place) = {static_cast<float*>(const_cast<void*>(view.data)),
                                    view.row_stride, batch_strides(view)};
      }
    }
  }

  template <class Entry>
  Entry& at(const Place& place) {
    return entry_at<Entry>(params_, place.offset);
  }

  const FusedGemm& step_;
  const EpilogueLayout layout_;
  const Config& config_;
  const Variant& variant_;
  GemmViews views_;
  char* scratch_ = nullptr;
  abi::CopiedGemmParams block_{};
  abi::GemmParams& params_ = block_.gemm;
};

std::size_t entry_bytes(List list) {
  switch (list) {
    case List::parameters: return sizeof(float);
    case List::tiles:
    case List::results: return sizeof(abi::Matrix);
    case List::partials: return sizeof(abi::Partials);
    default: return sizeof(abi::Vector);
  }
}

std::optional<WhyNot> why_not_start(const plan::Plan& plan, const plan::Operand& operand,
                                    const MatrixView& view) {
  const std::size_t bytes = size_bytes(operand.dtype);
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(view.data) % bytes == 0;
  const MatrixView rows = rows_of(operand, view);
  if (!is_aligned) {
    return WhyNot{"unaligned_base", fmt::format("{} does not start at a multiple of its elements' "
                                                "{} bytes.",
                                                plan.graph[operand.value].name, bytes)};
  }
  if (rows.cols > 1 && rows.col_stride != 1) {
    return WhyNot{"strided_columns",
                  fmt::format("neighbouring elements of rows of {} are {} elements apart, and rows "
                              "are copied as they lie.",
                              plan.graph[operand.value].name, rows.col_stride)};
  }
  return std::nullopt;
}

// A thread steps through the rows of both weights of a gate by one distance.
std::optional<WhyNot> why_not_step(const plan::Plan& plan, const plan::GemmDesc& gemm,
                                   const GemmViews& views) {
  const MatrixView first = rows_of(gemm.b, views.b),
                   second = rows_of(gemm.second_b, views.second_b);
  if (first.rows <= 1 || first.row_stride == second.row_stride) return std::nullopt;
  return WhyNot{"gates_apart",
                fmt::format("rows of {} are {} elements apart and those of {} {}, and both are "
                            "copied by one distance.",
                            plan.graph[gemm.b.value].name, first.row_stride,
                            plan.graph[gemm.second_b.value].name, second.row_stride)};
}

}  // namespace

std::size_t params_bytes(const EpilogueLayout& layout, const Config& config) {
  std::size_t end = offsetof(abi::GemmParams, rows);  // behind the parameters
  const auto reach = [&](bool is_used, std::size_t offset, std::size_t bytes) {
    if (is_used) end = std::max(end, offset + bytes);
  };
  reach(config.grouped, offsetof(abi::GemmParams, groups), sizeof(abi::Integers));
  reach(config.gathers, offsetof(abi::GemmParams, rows_of_a), sizeof(abi::Integers));
  reach(config.scaled, offsetof(abi::GemmParams, a_scales), 3 * sizeof(abi::BlockScales));
  const auto add = [&](const Place& place) {
    reach(true, place.offset, entry_bytes(place.list));
    reach(place.is_indexed, place.integers_offset, sizeof(abi::Integers));
  };
  for (const Place& place : layout.loads()) add(place);
  for (const Place& place : layout.stores()) add(place);
  constexpr std::size_t kAlignment = alignof(abi::CopiedGemmParams);
  return (kGemmAt + end + kAlignment - 1) / kAlignment * kAlignment;
}

std::optional<WhyNot> why_not_bound(const plan::Plan& plan, const FusedGemm& step,
                                    const Bound& bound) {
  WhyNot why;
  const auto views = gemm_views(plan, step, bound, &why);
  if (!views) return why;
  constexpr std::int64_t kSmallest = 32;  // rows or columns of a tile's results
  constexpr std::int64_t kMost = std::numeric_limits<int>::max() / 4;
  const std::int64_t products = views->batch_inner * views->batch_outer;
  const std::int64_t m = views->a.rows, n = views->b.rows, k = views->a.cols;
  const bool is_countable = m <= kMost && n <= kMost && k <= kMost && products <= kMost;
  const std::int64_t rows_of_tiles = has_rows_of_groups(step.gemm)
                                         ? m / kSmallest + std::min(products, m)
                                         : products * ceil_div(m, kSmallest);
  if (!is_countable || std::max(rows_of_tiles, products) + 1 > kMost / (n / kSmallest + 1)) {
    return WhyNot{"too_large", "it has more tiles, or a larger K, than the kernel can number."};
  }
  if (step.epilogue.reduces() && (products == 0 || m == 0 || n == 0)) {
    return WhyNot{"empty_reduction", "a reduction of no elements needs no product."};
  }
  if (k == 0) return std::nullopt;  // operands that are not read
  const plan::GemmDesc& gemm = step.gemm;
  if (auto no = why_not_start(plan, gemm.a, views->a)) return no;
  const MatrixView b = has_adjacent_gates(gemm) ? both_gates(views->b) : views->b;
  if (auto no = why_not_start(plan, gemm.b, b)) return no;
  if (gemm.gating != plan::Gating::separate) return std::nullopt;
  if (auto no = why_not_start(plan, gemm.second_b, views->second_b)) return no;
  return why_not_step(plan, gemm, *views);
}

Variant variant(const plan::Plan& plan, const FusedGemm& given, const Bound& bound) {
  const FusedGemm step = by_product(given);
  const plan::GemmDesc& gemm = step.gemm;
  GemmViews views = require_views(plan, step, bound);
  const EpilogueLayout layout(step.epilogue);  // its lists of full-size matrices are both variants'
  Variant out;
  out.swapped = gemm.gating == plan::Gating::none && !gemm.is_grouped() && !gemm.widens_b() &&
                wants_exchange(step, layout, views);
  if (out.swapped) views = exchanged(views);
  out.alignment_a = alignment_of(gemm, out.swapped ? gemm.b : gemm.a, views.a, true);
  out.alignment_b = alignment_of_b(gemm, out.swapped ? gemm.a : gemm.b, views);
  out.non_tma_loads = non_tma_bits(full_loads(step, layout, views));
  out.non_tma_stores = non_tma_bits(full_stores(step, layout, views));
  return out;
}

OperandRoles roles(const Variant& variant) {
  constexpr int kUsual = 16;
  return {variant.swapped, variant.alignment_a != kUsual, variant.alignment_b != kUsual};
}

Partials partials(const FusedGemm& step, const Config& config, const Variant& variant,
                  const Sizes& sizes, const targets::DeviceLimits&) {
  ReducedSpace space = reduced_space(step, sizes, variant.swapped);
  const std::int64_t parts =
      space.along_rows ? ceil_div(space.n, warp_columns(config)) : ceil_div(space.m, config.warp_m);
  return lay_out_partials(std::move(space.batch), parts, parts,
                          space.along_rows ? space.m : space.n);
}

Scratch scratch(const FusedGemm& step, const Config& config, const Variant& variant,
                const Sizes& sizes, const targets::DeviceLimits& limits) {
  if (config.split_k == 1) return {};
  const ReducedSpace space = reduced_space(step, sizes, variant.swapped);
  GemmSizes results{1, space.m, space.n, 0};
  for (const std::int64_t each : space.batch) results.batch *= each;
  const std::int64_t tiles = tile(config, results, limits.num_sms).tiles;
  const std::size_t zeros = arrival_bytes(tiles);
  const std::int64_t sums = tiles * config.split_k * config.tile_m * config.tile_n;
  return {zeros + static_cast<std::size_t>(sums) * sizeof(float), zeros};
}

Launch launch(const plan::Plan& plan, const FusedGemm& given, const Config& config,
              const Variant& variant, const Bound& bound, const targets::DeviceLimits& limits) {
  const FusedGemm step = by_product(given);
  return Binder(plan, step, config, variant, bound).launch(limits.num_sms);
}

}  // namespace epifuse::codegen::sm80
