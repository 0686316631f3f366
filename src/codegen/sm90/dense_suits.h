// Which shapes of tiles the Hopper GEMM may take for a step.
#pragma once

#include "codegen/sm90/dense.h"

namespace epifuse::codegen::sm90 {

constexpr int kMostAccumulatorsOfAll = 128;  // that any epilogue leaves room for

bool suits(const TileShape& shape, const plan::FusedGemm& step, const Pressure& registers,
           const EpilogueLayout& layout);

}  // namespace epifuse::codegen::sm90
