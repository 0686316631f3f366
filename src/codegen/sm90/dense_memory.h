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

// What weights of groups that come from memory take beside that: where their rows lie off lines of
// L2, CTAs of other rows of tiles get out of step, and read them again (docs/gotchas-groups.md).
// `sizes`: even groups as a batch.
double groups_apart_us(const ModelConstants& c, const Config& config, const GemmSizes& sizes,
                       const Tiling& tiling, double lines_of_b);

}  // namespace epifuse::codegen::sm90
