// How the kernel for few rows reads its operands, and how much of it an SM holds at once. As
// kernels/sm90/few_rows_tile.cuh has it.
#pragma once

#include <cstdint>

#include "codegen/sm90/config.h"
#include "plan/plan.h"

namespace epifuse::codegen::sm90 {

constexpr int kWarpThreads = 32;

enum class LoadsOfA { vectors, shifted, elements };
struct Loads {
  bool is_k_major, is_shifted;  // B
  LoadsOfA of_a;
  bool is_batched;
  bool widens_b;  // of 8 bits
};
Loads loads_of(const plan::GemmDesc& gemm, const Config& config);
// Both operands come in whole vectors along K.
bool takes_vectors(const Loads& loads);

// 16 bytes each that a thread multiplies of B in a step.
int vectors_of_step(const Config& config, const Loads& loads);

// How many CTAs an SM has at once, and the steps that each loads ahead.
struct Occupancy {
  int ctas = 0, depth = 0;
};
Occupancy occupancy(const Config& config, const Loads& loads);

// Tiles side by side of `n` columns.
std::int64_t column_tiles(const Config& config, const Loads& loads, std::int64_t n);

}  // namespace epifuse::codegen::sm90
