// Where block scales are in shared memory, those of some steps of K.
#pragma once

#include "kernels/sm90/policies.cuh"

namespace epifuse::sm90 {

// Slots of block scales: those of a step's rows, then of its columns, or copies of the one that the
// columns of each product have.
template <class Config>
struct ScaleRing {
  static constexpr bool kExists = Config::kScaling != Scaling::none;
  static constexpr bool kByTile = Config::kScaling == Scaling::by_tile;
  static constexpr int kRows = Config::kTileM, kColumns = kByTile ? 4 : Config::kTileN;
  static constexpr int kFewest = kByTile ? 2 : 4;
  static constexpr int kSlots = !kExists ? 0 : 512 / kRows > kFewest ? 512 / kRows : kFewest;
  static constexpr int kSlotBytes = (kRows + kColumns) * 4;
  static_assert((kSlots & (kSlots - 1)) == 0);

  // Of either barrier of a slot, when it is the turn of a CTA's step of that number.
  static __device__ __forceinline__ uint32_t phase(uint32_t number) { return number / kSlots & 1; }
};

}  // namespace epifuse::sm90
