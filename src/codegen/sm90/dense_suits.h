// Which shapes of tiles the Hopper GEMM may take for a step.
#pragma once

#include "codegen/sm90/dense.h"

namespace epifuse::codegen::sm90 {

constexpr int kMostAccumulatorsOfAll = 128;  // that any epilogue leaves room for

bool suits(const TileShape& shape, const plan::FusedGemm& step, const Pressure& registers,
           const EpilogueLayout& layout);

// Whether D^T may be computed of a step whose results stay as they are: what it reads and writes in
// full has 16-bit elements, whose chunks are staged as columns, and nothing belongs to rows or
// columns of tiles.
bool can_swap(const plan::FusedGemm& step);

}  // namespace epifuse::codegen::sm90
