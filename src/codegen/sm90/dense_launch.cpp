// From bound tensors to the launch of a Hopper GEMM: which variant they need, and its parameters.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "base/ceil_div.h"
#include "base/check.h"
#include "codegen/block_scales.h"
#include "codegen/matrix_view.h"
#include "codegen/row_groups.h"
#include "codegen/sm90/dense.h"
#include "kernels/abi.h"

namespace epifuse::codegen::sm90 {
namespace {

using plan::FusedGemm;
using plan::WhyNot;

unsigned non_tma_bits(const std::vector<FullSize>& matrices) {
  unsigned bits = 0;
  for (const auto& [place, view, dtype] : matrices) {
    if (place.staging != Staging::none && why_not_tma(view, dtype, "")) bits |= 1u << place.index;
  }
  return bits;
}

// Of results, also those whose rows end within 16 bytes: what lies behind is another's.
unsigned non_tma_bits_of_stores(const std::vector<FullSize>& stores) {
  constexpr std::int64_t kUnitBytes = 16;  // that TMA writes
  unsigned bits = non_tma_bits(stores);
  for (const auto& [place, view, dtype] : stores) {
    const std::int64_t row_bytes = view.cols * static_cast<std::int64_t>(size_bytes(dtype));
    if (place.staging != Staging::none && row_bytes % kUnitBytes != 0) bits |= 1u << place.index;
  }
  return bits;
}

// What is read for b, one after the other.
std::vector<MatrixView> views_of_b(const plan::GemmDesc& gemm, const GemmViews& views) {
  if (gemm.gating == plan::Gating::none) return {views.b};
  if (has_adjacent_gates(gemm)) return {both_gates(views.b)};
  return {views.b, views.second_b};
}

bool is_misaligned(const plan::Operand& operand, const MatrixView& view) {
  const bool is_read = view.cols > 0;
  return is_read && why_not_tma(rows_of(operand, view), operand.dtype, "").has_value();
}

GemmViews require_views(const plan::Plan& plan, const FusedGemm& step, const Bound& bound) {
  WhyNot why;
  const auto views = gemm_views(plan, step, bound, &why);
  EPIFUSE_CHECK(views.has_value(), "tensors are checked by why_not_bound");
  return *views;
}

abi::BatchStrides batch_strides(const MatrixView& view) {
  return {view.outer_stride, view.inner_stride};
}
abi::Matrix plain_matrix(const MatrixView& view) {
  return {const_cast<void*>(view.data), view.row_stride, view.col_stride, batch_strides(view)};
}

// Fills the parameter block and asks for its maps.
class Binder {
 public:
  Binder(const plan::Plan& plan, const FusedGemm& step, const Config& config,
         const Variant& variant, const Bound& bound)
      : step_(step),
        is_exchanged_(are_exchanged(config, variant)),
        layout_(step.epilogue, is_exchanged_),
        config_(config),
        variant_(variant),
        bound_(bound) {
    views_ = require_views(plan, step, bound);
    if (is_exchanged_) views_ = exchanged(views_);
  }

  Launch bind(const plan::Plan& plan, const targets::DeviceLimits& limits) {
    const std::int64_t m = views_.a.rows, n = views_.b.rows, k = views_.a.cols;
    params_.m = static_cast<int>(m);
    params_.n = static_cast<int>(n);
    params_.k = static_cast<int>(k);
    params_.batch_inner = static_cast<int>(views_.batch_inner);
    params_.batch = static_cast<int>(views_.batch_inner * views_.batch_outer);
    bind_operands();
    bind_full_size();
    bind_vectors();
    bind_partials();
    if (config_.gathers) params_.gathered_a = plain_matrix(views_.a);
    bind_integers(plan, step_, layout_, bound_, params_);
    bind_block_scales(is_exchanged_ ? exchanged(step_).gemm : step_.gemm, views_,
                      has_adjacent_gates(step_.gemm), params_);
    set_grid(m, n, k, limits);
    set_params(out_, &all_params_, variant_.is_misaligned() ? sizeof all_params_ : sizeof params_);
    return std::move(out_);
  }

 private:
  void add_map(std::size_t offset, int index, const MatrixView& view, DType dtype, int box_rows,
               int box_cols) {
    TensorMapRequest request = map_request(view, dtype, views_);
    request.offset = offset;
    request.box_rows = box_rows;
    request.box_cols = box_cols;
    request.batched = is_batched(step_.gemm);
    out_.maps.push_back(request);
    if (view.inner_stride != 0) params_.batched |= 1u << (2 * index);
    if (view.outer_stride != 0) params_.batched |= 2u << (2 * index);
  }

  // K-major operands come in boxes of the tile's rows (of a CTA's part of them), others in boxes of
  // one stage's rows of K.
  void add_operand(std::size_t offset, int index, MatrixView view, const plan::Operand& operand,
                   int tile_rows) {
    const OperandFormat& format = operand_format(step_.gemm.a.dtype);
    const int step_k = format.step_k();
    if (view.cols == 0) {  // no products: a matrix of which only what lies outside is read
      view = {nowhere(), 1, 1, 0, 1, 0, 0};
      params_.first_k = step_k;
    } else {
      view = rows_of(operand, view);
    }
    const int rows = operand.major == plan::Major::k ? tile_rows : step_k;
    add_map(offset, index, view, operand.dtype, rows, step_k);
    if (step_.gemm.is_k_grouped() && views_.a.cols > 0) {
      out_.maps.back() = windows(out_.maps.back(), step_k);
      params_.batched |= 1u << (2 * index);
    }
    out_.maps.back().rounds_to_tf32 = format.rounds;
    out_.maps.back().swizzled =
        static_cast<int>(size_bytes(operand.dtype)) == format.bytes();  // else it is widened
  }

  // Of A. Rows that are not there would come as zeros, which takes as long as to read them.
  int rows_of_box(const plan::Operand& a) const {
    const int part = config_.tile_m / config_.cluster_n;
    if (a.major != plan::Major::k || config_.cluster_n > 1 || views_.a.cols == 0) return part;
    return static_cast<int>(std::clamp<std::int64_t>(views_.a.rows, 1, part));
  }

  // A map for each class of rows, every 8th of a K-major tile or of one stage's rows of K.
  void add_misaligned_operand(std::size_t offset, int index, const MatrixView& view,
                              const plan::Operand& operand, int tile_rows,
                              abi::MisalignedOperand& out) {
    const OperandFormat& format = operand_format(operand.dtype);
    const int rows = operand.major == plan::Major::k ? tile_rows : format.step_k();
    const auto classes = row_classes(rows_of(operand, view), operand.dtype);
    for (std::size_t j = 0; j < classes.size(); ++j) {
      out.shifts |= static_cast<unsigned>(classes[j].shift * format.bytes() / kShiftBytes) << 4 * j;
      add_map(offset + offsetof(abi::MisalignedOperand, classes) + j * sizeof(abi::TensorMap),
              index, classes[j].view, operand.dtype, rows / abi::kRowClasses,
              abi::kStagedRowBytes / format.bytes());
      out_.maps.back().swizzled = false;
      out_.maps.back().rounds_to_tf32 = format.rounds;
    }
  }

  // Any address that a map may start at.
  const void* nowhere() const {
    constexpr std::uintptr_t kAlignment = 256;
    const auto address = reinterpret_cast<std::uintptr_t>(views_.stores.front().data);
    return reinterpret_cast<const void*>(address / kAlignment * kAlignment);
  }

  void bind_operands() {
    const plan::Operand& a = is_exchanged_ ? step_.gemm.b : step_.gemm.a;
    const plan::Operand& b = is_exchanged_ ? step_.gemm.a : step_.gemm.b;
    if (variant_.misaligned_a) {
      add_misaligned_operand(offsetof(abi::MisalignedGemmParams, a), 0, views_.a, a, config_.tile_m,
                             all_params_.a);
    } else if (!config_.gathers) {
      add_operand(offsetof(abi::GemmParams, a), 0, views_.a, a, rows_of_box(a));
      if (has_short_tiles(config_)) {
        add_operand(offsetof(abi::GemmParams, fewer_rows), 0, views_.a, a,
                    std::min(rows_of_box(a), kBlockRows));
      }
    }
    params_.a_bytes = rows_of_box(a) * config_.cluster_n * kStepBytes;
    if (variant_.misaligned_b) {
      add_misaligned_operand(offsetof(abi::MisalignedGemmParams, b), 1, views_.b, b, config_.tile_n,
                             all_params_.b);
    } else {
      add_b(b);
    }
    if (config_.two_widths) {
      add_operand(offsetof(abi::GemmParams, fewer_rows), 1, views_.b, b,
                  config_.tile_n / config_.cluster_m - kNarrower);
    }
  }

  // Of two products side by side each has a map, for half of a tile.
  void add_b(const plan::Operand& b) {
    const int tile_rows = config_.tile_n / config_.cluster_m;
    if (config_.products == 1) {
      add_operand(offsetof(abi::GemmParams, b), 1, views_.b, b, tile_rows);
    } else if (has_adjacent_gates(step_.gemm)) {
      add_operand(offsetof(abi::GemmParams, b), 1, both_gates(views_.b), b, tile_rows);
    } else {
      add_operand(offsetof(abi::GemmParams, b), 1, views_.b, b, result_columns(config_));
      add_operand(offsetof(abi::GemmParams, second_b), abi::kSecondB, views_.second_b, b,
                  result_columns(config_));
    }
  }

  void bind_full_size() {
    for (const FullSize& full : full_loads(step_, layout_, views_)) {
      at<abi::Matrix>(full.place) = plain_matrix(full.view);
      if (full.place.staging == Staging::none ||
          (variant_.non_tma_loads >> full.place.index & 1) != 0)
        continue;
      add_chunk_map(full.place.map_offset, abi::kFirstTile + full.place.index, full,
                    columns_of_slot(full.place.bytes));
    }
    for (const FullSize& full : full_stores(step_, layout_, views_)) {
      at<abi::Matrix>(full.place) = plain_matrix(full.view);
      if (full.place.staging == Staging::none ||
          (variant_.non_tma_stores >> full.place.index & 1) != 0)
        continue;
      add_store(full);
    }
  }

  void add_store(const FullSize& full) {
    const int index = abi::kFirstStore + full.place.index;
    const int columns = columns_of_slot(full.place.bytes);
    add_chunk_map(full.place.map_offset, index, full, columns);
    const int cut = cut_columns(config_) % columns;
    if (cut != 0) add_chunk_map(full.place.cut_map_offset, index, full, cut);
  }

  // Of so many columns of chunks; memory has those that are staged as columns in rows.
  void add_chunk_map(std::size_t offset, int index, const FullSize& full, int columns) {
    if (config_.swapped) {
      add_map(offset, index, transposed(full.view), full.dtype, columns, kBlockRows);
    } else {
      add_map(offset, index, full.view, full.dtype, kBlockRows, columns);
    }
  }

  void bind_vectors() {
    for (std::size_t i = 0; i < views_.loads.size(); ++i) {
      const Place& place = layout_.loads()[i];
      const MatrixView& view = views_.loads[i];
      if (place.list == List::scalars) {
        at<abi::Vector>(place) = {view.data, 0, batch_strides(view)};
      } else if (place.list == List::rows) {
        at<abi::Vector>(place) = {view.data, view.col_stride, batch_strides(view)};
      } else if (place.list == List::cols) {
        at<abi::Vector>(place) = {view.data, view.row_stride, batch_strides(view)};
      }
    }
    layout_.set_parameters(bound_.scalars, params_.parameters);
  }

  // The kernel's own orientation: whichever role a and b have.
  void bind_partials() {
    for (const int i : layout_.of(List::partials)) {
      MatrixView view = views_.stores[static_cast<std::size_t>(i)];
      if (is_exchanged_) view = transposed(view);
      at<abi::Partials>(layout_.stores()[static_cast<std::size_t>(i)]) = {
          static_cast<float*>(const_cast<void*>(view.data)), view.row_stride, batch_strides(view)};
    }
  }

  void set_grid(std::int64_t m, std::int64_t n, std::int64_t k,
                const targets::DeviceLimits& limits) {
    const std::int64_t groups = has_rows_of_groups(step_.gemm) ? params_.groups.num_rows : 0;
    const GemmSizes sizes{groups > 0 ? 1 : params_.batch, m, n, k, groups};
    const Tiling tiling = tile(config_, sizes, limits);
    params_.raster = tiling.raster;
    params_.columns = static_cast<int>(tiling.columns);
    params_.least_rows = least_rows_of_tile(config_, sizes);
    params_.lets_next_start = tiling.is_one_wave;
    out_.cluster = static_cast<unsigned>(cluster_size(config_));
    out_.grid = static_cast<unsigned>(tiling.num_ctas);
    out_.block = threads(config_);
    out_.smem_bytes = static_cast<unsigned>(smem_bytes(layout_, config_, variant_));
    out_.overlaps_previous = true;
  }

  // The entry of an operand of the epilogue.
  template <class Entry>
  Entry& at(const Place& place) {
    return entry_at<Entry>(params_, place.offset);
  }

  const FusedGemm& step_;
  const bool is_exchanged_;
  const EpilogueLayout layout_;
  const Config& config_;
  const Variant& variant_;
  const Bound& bound_;
  GemmViews views_;
  abi::MisalignedGemmParams all_params_{};
  abi::GemmParams& params_ = all_params_.gemm;
  Launch out_;
};

}  // namespace

std::optional<WhyNot> why_not_bound(const plan::Plan& plan, const FusedGemm& step,
                                    const Bound& bound) {
  WhyNot why;
  const auto views = gemm_views(plan, step, bound, &why);
  if (!views) return why;
  constexpr std::int64_t kMostDepth = 1 << 30,  // of K, what 32 bits can count with room
      kColumns = 64;  // of tiles; the model leaves out narrower ones where they are too many
  const std::int64_t products = views->batch_inner * views->batch_outer, rows = views->a.rows;
  const std::int64_t rows_of_tiles = has_rows_of_groups(step.gemm)
                                         ? rows / kBlockRows + std::min(products, rows)
                                         : products * ceil_div(rows, kBlockRows);
  const std::int64_t tiles = rows_of_tiles * ceil_div(views->b.rows, kColumns);
  if (tiles >= kMostTiles || views->a.cols > kMostDepth) {
    return WhyNot{"too_large", "it has more tiles, or a larger K, than the kernel can number."};
  }
  if (step.epilogue.reduces() && tiles == 0) {
    return WhyNot{"empty_reduction", "a reduction of no elements needs no product."};
  }
  if (auto no = why_not_block_scales(*views)) return no;
  if (views->a.cols == 0) return std::nullopt;  // operands that are not read
  const plan::GemmDesc& gemm = step.gemm;
  const auto why_not_operand = [&](const plan::Operand& operand, const MatrixView& view) {
    if (!is_misaligned(operand, view)) return std::optional<WhyNot>();
    const auto why_not = gemm.has_groups() || gemm.widens_b() ? why_not_tma : why_not_row_classes;
    return why_not(rows_of(operand, view), operand.dtype, plan.graph[operand.value].name);
  };
  if (auto no = why_not_operand(gemm.a, views->a)) return no;
  const bool needs_tma = gemm.gating != plan::Gating::none || gemm.widens_b();
  const plan::Operand* b = &gemm.b;
  for (const MatrixView& view : views_of_b(gemm, *views)) {
    if (needs_tma && is_misaligned(*b, view)) {
      return why_not_tma(rows_of(*b, view), b->dtype, plan.graph[b->value].name);
    }
    if (auto no = why_not_operand(*b, view)) return no;
    if (gemm.gating == plan::Gating::separate) b = &gemm.second_b;
  }
  return std::nullopt;
}

Variant variant(const plan::Plan& plan, const FusedGemm& given, const Bound& bound) {
  Variant out;
  out.unpaired = !can_pair(given, bound);
  const FusedGemm step = as_compiled(given, out);
  GemmViews views = require_views(plan, step, bound);
  const bool is_gated = step.gemm.gating != plan::Gating::none;
  const bool is_grouped = step.gemm.is_grouped(), has_groups = step.gemm.has_groups();
  const EpilogueLayout layout(step.epilogue);  // its lists of full-size matrices are both variants'
  const bool may_exchange = !is_gated && !is_grouped && !step.gemm.widens_b();
  out.swapped = may_exchange && wants_exchange(step, layout, views);
  if (out.swapped) views = exchanged(views);
  const plan::GemmDesc& gemm = step.gemm;
  out.misaligned_a = !has_groups && is_misaligned(out.swapped ? gemm.b : gemm.a, views.a);
  out.misaligned_b =
      !is_gated && !has_groups && is_misaligned(out.swapped ? gemm.a : gemm.b, views.b);
  const std::vector<FullSize> loads = full_loads(step, layout, views);
  const std::vector<FullSize> stores = full_stores(step, layout, views);
  out.non_tma_loads = non_tma_bits(loads) | layout.indexed(List::tiles);
  out.non_tma_stores = non_tma_bits_of_stores(stores);
  set_moved(loads, stores, views.a.cols, out);
  return out;
}

Launch launch(const plan::Plan& plan, const FusedGemm& step, const Config& config,
              const Variant& variant, const Bound& bound, const targets::DeviceLimits& limits) {
  const FusedGemm as_written = as_compiled(step, variant);
  return Binder(plan, as_written, config, variant, bound).bind(plan, limits);
}

}  // namespace epifuse::codegen::sm90
