// What the kernels of the cp.async + mma.sync GEMM differ in: configs and variants.
#pragma once

#include <optional>
#include <string>

namespace epifuse::codegen::sm80 {

// One point of the search space.
struct Config {
  int tile_m = 0, tile_n = 0;  // of a CTA
  int warp_m = 0, warp_n = 0;  // of a warp, which divide these
  int step_bytes = 0;          // of K, that a stage has of each operand: 64 or 128
  int stages = 0;
  int ctas = 1;     // that run on an SM at once
  int split_k = 1;  // CTAs that share the K of a tile
  // Blocks of 16 rows of each warp that the epilogue stages behind the stages, so that these fill
  // for the CTA's next tile meanwhile; 0: in their place, and a CTA has one tile.
  int staged_blocks = 0;
  bool pointer_arrays = false;  // which then are of many problems
  bool lean = false;            // takes fewer registers to copy
  int products = 1;             // whose columns are side by side in tile_n: 2 where gated
  bool grouped = false;         // rows belong to groups, or parts of K do
  bool gathers = false;         // rows of a are looked up
  bool scaled = false;          // blocks of K have scales
  bool widens_b = false;        // of 8 bits, of which a stage has half of step_bytes
  int maxima = 0;               // of each block of columns, which the epilogue takes
  bool operator==(const Config&) const = default;
};
inline int step_bytes_of_b(const Config& config) {
  return config.step_bytes / (config.widens_b ? 2 : 1);
}
// "128x256 by 64x64, 32 deep, 4 stages": depth in elements of 16 bits. Names a config in results.
std::string print(const Config& config);
// The same with one CTA an SM, whose threads get more registers, then a lean one; nothing beyond.
std::optional<Config> leaner(Config config);

// What bound tensors ask of a kernel beyond its config. The usual one: all that is copied starts at
// multiples of 16 bytes, and full-size operands are row-major and can be read in vectors.
struct Variant {
  bool swapped = false;  // computes D^T = B^T * A^T, as results and full operands are column-major
  int alignment_a = 16, alignment_b = 16;  // bytes: 16, 8, 4, 2 or 1
  unsigned non_tma_loads = 0;   // bit i: the i-th full-size load is read element by element
  unsigned non_tma_stores = 0;  // bit i: the i-th full-size store is written so
  bool operator==(const Variant&) const = default;
};
std::string print(const Variant& variant);  // "" for the usual one
std::string key(const Variant& variant);    // with the bits that `print` leaves out

}  // namespace epifuse::codegen::sm80
