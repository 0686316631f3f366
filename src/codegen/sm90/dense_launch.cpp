// From bound tensors to the launch of a Hopper GEMM: which variant they need, and its parameters.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "codegen/epilogue_cuda.h"
#include "codegen/matrix_view.h"
#include "codegen/sm90/dense.h"
#include "kernels/abi.h"
#include "plan/limits.h"

namespace epifuse::codegen::sm90 {
namespace {

using plan::Access;
using plan::FusedGemm;
using plan::WhyNot;

// These mirror kernels/sm90/dense.cuh.
constexpr int kThreads = 384, kSwizzleBytes = 128, kSmallestTile = 64;

int bytes(DType dtype) { return static_cast<int>(size_bytes(dtype)); }
std::int64_t round_up_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

bool is_single_row(const MatrixView& view) { return view.rows == 1; }
bool is_row_major(const MatrixView& view) { return view.col_stride == 1 || view.cols == 1; }
bool is_column_major(const MatrixView& view) {
  return !is_row_major(view) && (view.row_stride == 1 || is_single_row(view));
}

// Full-size matrices: of the epilogue's tile loads, and of its tile stores.
struct FullSize {
  std::vector<MatrixView> loads, stores;
  std::vector<DType> load_dtypes, store_dtypes;
};

FullSize full_size(const FusedGemm& step, const GemmViews& views) {
  FullSize out;
  for (int i : loads_of(step.epilogue, Access::tile)) {
    const auto load = static_cast<std::size_t>(i);
    out.loads.push_back(views.loads[load]);
    out.load_dtypes.push_back(step.epilogue.loads[load].dtype);
  }
  for (std::size_t i = 0; i < step.epilogue.stores.size(); ++i) {
    const plan::Store& store = step.epilogue.stores[i];
    if (store.kind != plan::StoreKind::tile) continue;
    out.stores.push_back(views.stores[i]);
    out.store_dtypes.push_back(stored_dtype(store));
  }
  return out;
}

// Whether most of what the epilogue reads and writes in full is column-major.
bool wants_swap(const FullSize& full) {
  std::ptrdiff_t row_major = 0, column_major = 0;
  for (const auto* views : {&full.loads, &full.stores}) {
    row_major += std::count_if(views->begin(), views->end(), is_row_major);
    column_major += std::count_if(views->begin(), views->end(), is_column_major);
  }
  return column_major > row_major;
}

unsigned plain_bits(const std::vector<MatrixView>& views, const std::vector<DType>& dtypes) {
  unsigned bits = 0;
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (why_not_tma(views[i], dtypes[i], "")) bits |= 1u << i;
  }
  return bits;
}

// D^T = B^T A^T: rows and columns exchange their roles in everything.
GemmViews swapped(GemmViews views) {
  std::swap(views.a, views.b);
  for (MatrixView& view : views.loads) view = transposed(view);
  for (MatrixView& view : views.stores) view = transposed(view);
  return views;
}

// The operand as the rows in which TMA reads it.
MatrixView rows_of(const plan::Operand& operand, const MatrixView& view) {
  return operand.major == plan::Major::k ? view : transposed(view);
}

// The columns of both products, of which `first` has every other one.
MatrixView both_gates(MatrixView first) {
  first.rows *= 2;
  first.row_stride /= 2;
  return first;
}

// What is read for b, one after the other.
std::vector<MatrixView> views_of_b(const plan::GemmDesc& gemm, const GemmViews& views) {
  if (gemm.gating == plan::Gating::none) return {views.b};
  if (has_adjacent_gates(gemm)) return {both_gates(views.b)};
  return {views.b, views.second_b};
}

bool is_shifted(const plan::Operand& operand, const MatrixView& view) {
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
      : step_(step), config_(config), variant_(variant), bound_(bound) {
    EPIFUSE_CHECK(!plan::exceeded(plan::demand_of(step.epilogue)),
                  "an epilogue that the parameter block has no room for");
    views_ = require_views(plan, step, bound);
    if (variant.swapped) views_ = swapped(views_);
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
    bind_integers(plan, step_, bound_, params_);
    set_grid(m, n, k, limits);
    set_params(out_, &all_params_, params_bytes(step_.epilogue, config_, variant_));
    return std::move(out_);
  }

 private:
  void add_map(std::size_t offset, int index, const MatrixView& view, DType dtype, int box_rows) {
    TensorMapRequest request = map_request(view, dtype, views_);
    request.offset = offset;
    request.box_rows = box_rows;
    request.box_cols = kSwizzleBytes / bytes(dtype);
    request.batched = is_batched(step_.gemm);
    out_.maps.push_back(request);
    if (view.inner_stride != 0) params_.batched |= 1u << (2 * index);
    if (view.outer_stride != 0) params_.batched |= 2u << (2 * index);
  }

  // K-major operands come in boxes of the tile's rows (of a CTA's part of them), others in boxes of
  // one stage's rows of K.
  void add_operand(std::size_t offset, int index, MatrixView view, const plan::Operand& operand,
                   int tile_rows) {
    const bool is_k_major = operand.major == plan::Major::k;
    if (view.cols == 0) {  // no products: a matrix of which only what lies outside is read
      view = {nowhere(), 1, 1, 0, 1, 0, 0};
      params_.first_k = kSwizzleBytes / bytes(operand.dtype);
    } else {
      view = rows_of(operand, view);
    }
    add_map(offset, index, view, operand.dtype,
            is_k_major ? tile_rows : kSwizzleBytes / bytes(operand.dtype));
    out_.maps.back().rounds_to_tf32 = operand.dtype == DType::f32;
  }

  // Of A. Rows that are not there would come as zeros, which takes as long as to read them.
  int rows_of_box(const plan::Operand& a) const {
    const int part = config_.tile_m / config_.cluster_n;
    if (a.major != plan::Major::k || config_.cluster_n > 1 || views_.a.cols == 0) return part;
    return static_cast<int>(std::clamp<std::int64_t>(views_.a.rows, 1, part));
  }

  // A map for each class of rows, every 8th of a K-major tile or of one stage's rows of K.
  void add_shifted_operand(std::size_t offset, int index, const MatrixView& view,
                           const plan::Operand& operand, int tile_rows, abi::ShiftedOperand& out) {
    const int element_bytes = bytes(operand.dtype);
    const int rows = operand.major == plan::Major::k ? tile_rows : kSwizzleBytes / element_bytes;
    const auto classes = row_classes(rows_of(operand, view), operand.dtype);
    for (std::size_t j = 0; j < classes.size(); ++j) {
      out.shifts |= static_cast<unsigned>(classes[j].shift * element_bytes / 2) << 4 * j;
      add_map(offset + offsetof(abi::ShiftedOperand, classes) + j * sizeof(abi::TensorMap), index,
              classes[j].view, operand.dtype, rows / abi::kRowClasses);
      out_.maps.back().box_cols = abi::kStagedRowBytes / element_bytes;
      out_.maps.back().swizzled = false;
      out_.maps.back().rounds_to_tf32 = operand.dtype == DType::f32;
    }
  }

  // Any address that a map may start at.
  const void* nowhere() const {
    constexpr std::uintptr_t kAlignment = 256;
    const auto address = reinterpret_cast<std::uintptr_t>(views_.stores.front().data);
    return reinterpret_cast<const void*>(address / kAlignment * kAlignment);
  }

  void bind_operands() {
    const plan::Operand& a = variant_.swapped ? step_.gemm.b : step_.gemm.a;
    const plan::Operand& b = variant_.swapped ? step_.gemm.a : step_.gemm.b;
    if (variant_.shifted_a) {
      add_shifted_operand(offsetof(abi::ShiftedGemmParams, a), 0, views_.a, a, config_.tile_m,
                          all_params_.a);
    } else if (!config_.gathers) {
      add_operand(offsetof(abi::GemmParams, a), 0, views_.a, a, rows_of_box(a));
      if (has_short_tiles(config_)) {
        add_operand(offsetof(abi::GemmParams, fewer_rows), 0, views_.a, a,
                    std::min(rows_of_box(a), kBlockRows));
      }
    }
    params_.a_bytes = rows_of_box(a) * config_.cluster_n * kSwizzleBytes;
    if (variant_.shifted_b) {
      add_shifted_operand(offsetof(abi::ShiftedGemmParams, b), 1, views_.b, b, config_.tile_n,
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
    const FullSize full = full_size(step_, views_);
    for (std::size_t i = 0; i < full.loads.size(); ++i) {
      params_.plain_tiles[i] = plain_matrix(full.loads[i]);
      if (variant_.plain_loads >> i & 1) continue;
      add_map(maps_at(i) + offsetof(abi::FullSizeMaps, load), abi::kFirstTile + static_cast<int>(i),
              full.loads[i], full.load_dtypes[i], kBlockRows);
    }
    for (std::size_t i = 0; i < full.stores.size(); ++i) {
      params_.plain_stores[i] = plain_matrix(full.stores[i]);
      if (variant_.plain_stores >> i & 1) continue;
      add_store(i, full.stores[i], full.store_dtypes[i]);
    }
  }

  void add_store(std::size_t i, const MatrixView& view, DType dtype) {
    const int index = abi::kFirstStore + static_cast<int>(i);
    add_map(maps_at(i) + offsetof(abi::FullSizeMaps, store), index, view, dtype, kBlockRows);
    const int cut = cut_columns(config_) % (kSwizzleBytes / bytes(dtype));
    if (cut == 0) return;
    add_map(maps_at(i) + offsetof(abi::FullSizeMaps, cut_store), index, view, dtype, kBlockRows);
    out_.maps.back().box_cols = cut;
  }

  void bind_vectors() {
    int rows = 0, cols = 0, scalars = 0;
    for (std::size_t i = 0; i < step_.epilogue.loads.size(); ++i) {
      const plan::Load& load = step_.epilogue.loads[i];
      const MatrixView& view = views_.loads[i];
      Access access = load.access;
      if (variant_.swapped && access == Access::row) {
        access = Access::col;
      } else if (variant_.swapped && access == Access::col) {
        access = Access::row;
      }
      switch (access) {
        case Access::scalar:
          params_.scalars[scalars++] = {view.data, 0, batch_strides(view)};
          break;
        case Access::row:
          params_.rows[rows++] = {view.data, view.col_stride, batch_strides(view)};
          break;
        case Access::col:
          params_.cols[cols++] = {view.data, view.row_stride, batch_strides(view)};
          break;
        case Access::parameter:
        case Access::tile: break;
      }
    }
    set_parameters(step_.epilogue, bound_.scalars, params_.parameters);
  }

  // The kernel's own orientation: whichever role a and b have.
  void bind_partials() {
    int next = 0;
    for (std::size_t i = 0; i < step_.epilogue.stores.size(); ++i) {
      if (step_.epilogue.stores[i].kind == plan::StoreKind::tile) continue;
      MatrixView view = views_.stores[i];
      if (variant_.swapped) view = transposed(view);
      params_.partials[next++] = {static_cast<float*>(const_cast<void*>(view.data)),
                                  view.row_stride, batch_strides(view)};
    }
  }

  void set_grid(std::int64_t m, std::int64_t n, std::int64_t k,
                const targets::DeviceLimits& limits) {
    const std::int64_t groups = has_rows_of_groups(step_.gemm) ? params_.groups.num_rows : 0;
    const GemmSizes sizes{groups > 0 ? 1 : params_.batch, m, n, k, groups};
    const Tiling tiling = tile(config_, sizes, limits);
    params_.raster = tiling.raster;
    params_.columns = static_cast<int>(tiling.columns);
    params_.whole_tiles = static_cast<int>(tiling.whole);
    params_.lets_next_start = tiling.is_one_wave;
    out_.cluster = static_cast<unsigned>(cluster_size(config_));
    out_.grid = static_cast<unsigned>(tiling.num_ctas);
    out_.block = kThreads;
    out_.smem_bytes = static_cast<unsigned>(smem_bytes(step_.epilogue, config_, variant_));
    out_.overlaps_previous = true;
  }

  const FusedGemm& step_;
  const Config& config_;
  const Variant& variant_;
  const Bound& bound_;
  GemmViews views_;
  abi::ShiftedGemmParams all_params_{};
  abi::GemmParams& params_ = all_params_.gemm;
  Launch out_;
};

}  // namespace

std::optional<WhyNot> why_not_bound(const plan::Plan& plan, const FusedGemm& step,
                                    const Bound& bound) {
  WhyNot why;
  const auto views = gemm_views(plan, step, bound, &why);
  if (!views) return why;
  constexpr std::int64_t kMostTiles = 1 << 21,  // what the kernel's float division can number
      kMostDepth = 1 << 30;                     // of K, what its 32 bits can count with room
  const std::int64_t products = views->batch_inner * views->batch_outer, rows = views->a.rows;
  const std::int64_t rows_of_tiles = has_rows_of_groups(step.gemm)
                                         ? rows / kSmallestTile + std::min(products, rows)
                                         : products * round_up_div(rows, kSmallestTile);
  const std::int64_t tiles = rows_of_tiles * round_up_div(views->b.rows, kSmallestTile);
  if (tiles >= kMostTiles || views->a.cols > kMostDepth) {
    return WhyNot{"too_large", "it has more tiles, or a larger K, than the kernel can number."};
  }
  if (step.epilogue.reduces() && tiles == 0) {
    return WhyNot{"empty_reduction", "a reduction of no elements needs no product."};
  }
  if (views->a.cols == 0) return std::nullopt;  // operands that are not read
  const plan::GemmDesc& gemm = step.gemm;
  const auto why_not_operand = [&](const plan::Operand& operand, const MatrixView& view) {
    if (!is_shifted(operand, view)) return std::optional<WhyNot>();
    const auto why_not = gemm.is_grouped() ? why_not_tma : why_not_row_classes;
    return why_not(rows_of(operand, view), operand.dtype, plan.graph[operand.value].name);
  };
  if (auto no = why_not_operand(gemm.a, views->a)) return no;
  for (const MatrixView& view : views_of_b(gemm, *views)) {
    const bool is_gated = gemm.gating != plan::Gating::none;
    if (is_gated && is_shifted(gemm.b, view)) {
      return why_not_tma(rows_of(gemm.b, view), gemm.b.dtype, plan.graph[gemm.b.value].name);
    }
    if (auto no = why_not_operand(gemm.b, view)) return no;
  }
  return std::nullopt;
}

Variant variant(const plan::Plan& plan, const FusedGemm& given, const Bound& bound) {
  Variant out;
  out.unpaired = !can_pair(given, bound);
  const FusedGemm step = as_compiled(given, out);
  GemmViews views = require_views(plan, step, bound);
  const bool is_gated = step.gemm.gating != plan::Gating::none;
  const bool is_grouped = step.gemm.is_grouped();
  out.swapped = !is_gated && !is_grouped && wants_swap(full_size(step, views));
  if (out.swapped) views = swapped(views);
  const FullSize full = full_size(step, views);
  const plan::GemmDesc& gemm = step.gemm;
  out.shifted_a = !is_grouped && is_shifted(out.swapped ? gemm.b : gemm.a, views.a);
  out.shifted_b = !is_gated && !is_grouped && is_shifted(out.swapped ? gemm.a : gemm.b, views.b);
  out.plain_loads = plain_bits(full.loads, full.load_dtypes) | indexed_rows(step.epilogue).tiles;
  out.plain_stores = plain_bits(full.stores, full.store_dtypes);
  return out;
}

Launch launch(const plan::Plan& plan, const FusedGemm& step, const Config& config,
              const Variant& variant, const Bound& bound, const targets::DeviceLimits& limits) {
  const FusedGemm as_written = as_compiled(step, variant);
  return Binder(plan, as_written, config, variant, bound).bind(plan, limits);
}

}  // namespace epifuse::codegen::sm90
