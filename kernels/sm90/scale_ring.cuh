// Where block scales are in shared memory, those of some steps of K.
#pragma once

#include "kernels/sm90/policies.cuh"

namespace epifuse::sm90 {

// Slots of block scales, where each column of a tile has its own: those of a step's rows, then of
// its columns.
template <class Config>
struct ScaleRing {
  static constexpr bool kExists = Config::kScaling == Scaling::by_column;
  static constexpr int kRows = Config::kTileM, kColumns = Config::kTileN;
  static constexpr int kFewest = 4;
  static constexpr int kSlots = !kExists ? 0 : 512 / kRows > kFewest ? 512 / kRows : kFewest;
  static constexpr int kSlotBytes = (kRows + kColumns) * 4;
  static_assert((kSlots & (kSlots - 1)) == 0);

  // Of either barrier of a slot, when it is the turn of a CTA's step of that number.
  static __device__ __forceinline__ uint32_t phase(uint32_t number) { return number / kSlots & 1; }
};

}  // namespace epifuse::sm90
