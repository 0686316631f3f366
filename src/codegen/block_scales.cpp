#include "codegen/block_scales.h"

#include <algorithm>
#include <limits>

namespace epifuse::codegen {
namespace {

constexpr int kSharedShift = 7;  // 128 rows
static_assert(1 << kSharedShift == ir::kScaleBlock);

abi::BlockScales block_scales(const MatrixView& view, bool are_shared) {
  return {static_cast<const float*>(view.data),
          view.row_stride,
          view.col_stride,
          {view.outer_stride, view.inner_stride},
          0,
          1,
          are_shared ? kSharedShift : 0,
          static_cast<int>(view.cols)};
}

}  // namespace

void bind_block_scales(const plan::GemmDesc& gemm, const GemmViews& views, bool both_columns,
                       abi::GemmParams& params) {
  if (!gemm.is_scaled()) return;
  params.a_scales = block_scales(views.scales[0], gemm.a_scales.are_shared);
  params.b_scales = block_scales(views.scales[1], gemm.b_scales.are_shared);
  if (gemm.gating == plan::Gating::none || both_columns) return;
  params.second_b_scales = params.b_scales;
  if (gemm.gating == plan::Gating::separate) {
    params.second_b_scales = block_scales(views.scales[2], gemm.second_b_scales.are_shared);
    return;
  }
  const auto [offset, step] = ir::piece(gemm.halves(), true, params.n, 1);
  params.b_scales.step = params.second_b_scales.step = step;
  params.second_b_scales.first = offset;
}

// Columns of a second product that lie behind the first ones begin a block only where those fill
// whole blocks.
bool have_one_scale(const plan::GemmDesc& gemm, int columns, bool both_columns) {
  if (!gemm.b_scales.are_shared || ir::kScaleBlock % columns != 0) return false;
  if (gemm.gating == plan::Gating::interleaved) return both_columns;
  return gemm.gating != plan::Gating::halves || gemm.n.divide(columns).has_value();
}

std::optional<plan::WhyNot> why_not_block_scales(const GemmViews& views) {
  for (const MatrixView& view : views.scales) {
    const std::int64_t rows = std::max<std::int64_t>(view.rows, 1);
    if (view.row_stride >= 0 && view.row_stride <= std::numeric_limits<int>::max() / rows) continue;
    return plan::WhyNot{"block_scales", "the rows of block scales are too far apart for 32 bits."};
  }
  return std::nullopt;
}

}  // namespace epifuse::codegen
