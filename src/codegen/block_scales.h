// Scales of blocks of K as kernels take them.
#pragma once

#include <optional>

#include "codegen/matrix_view.h"

namespace epifuse::codegen {

// Those of a scaled product into the parameters of its kernel, by the roles that a and b have in
// it: `gemm` and `views` are exchanged where those are. `both_columns`: the kernel numbers the
// columns of two products, which come by turns, as those of one.
void bind_block_scales(const plan::GemmDesc& gemm, const GemmViews& views, bool both_columns,
                       abi::GemmParams& params);

// Whether columns that a kernel multiplies together have one scale of B, those of each product
// where there are two: `columns` of them (of both products, where these come by turns and are
// numbered as one), which begin at multiples of that.
bool have_one_scale(const plan::GemmDesc& gemm, int columns, bool both_columns);

// Why kernels that count a matrix of scales in 32 bits cannot.
std::optional<plan::WhyNot> why_not_block_scales(const GemmViews& views);

}  // namespace epifuse::codegen
