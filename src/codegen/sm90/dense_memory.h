// What memory takes of the Hopper GEMM's time (dense_model.cpp).
#pragma once

#include "codegen/sm90/dense.h"
#include "codegen/sm90/model_constants.h"

namespace epifuse::codegen::sm90 {

// Microseconds. `drift`: how far CTAs are out of step in the end, from 0 to 1; `at_once`: clusters
// that run; `columns`: of a tile of b.
double memory_us(const ModelConstants& c, const Pressure& load, const Config& config,
                 const GemmSizes& sizes, const Tiling& tiling, double drift, double at_once,
                 double columns);

}  // namespace epifuse::codegen::sm90
