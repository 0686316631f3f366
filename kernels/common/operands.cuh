// What a generated epilogue reads: its operands at one output element, as floats.
#pragma once

namespace epifuse {

// A list of element types (kernels/common/element.cuh), e.g. of an epilogue's row vectors.
template <class... T>
struct Types {
  static constexpr int kCount = sizeof...(T);
  // Bytes of an element of each; the last 0 only makes an empty list an array.
  static constexpr int kSizes[] = {static_cast<int>(sizeof(typename T::Storage))..., 0};

  // Calls f(T{}, i) for each type in order; unrolled, so that `i` indexes registers.
  template <class F>
  static __device__ __forceinline__ void for_each([[maybe_unused]] F f) {
    [[maybe_unused]] int i = 0;
    (f(T{}, i++), ...);
  }
};

constexpr int at_least_one(int n) { return n > 0 ? n : 1; }

// Of an epilogue that takes maxima over blocks of columns: how many, and bit i: whether its i-th
// store is of the first element of each block, whether results are made of its i-th full operand,
// which maxima may be made of, too. A block has so many rows: 1, or as many as columns.
constexpr int kBlockColumns = 128;
template <class Epilogue, class = void>
struct Blocks {
  static constexpr int kCount = 0;
  static constexpr unsigned kStores = 0, kTiles = ~0u;
  static constexpr int kRows = 1;
};
template <class Epilogue>
struct Blocks<Epilogue, decltype(static_cast<void>(Epilogue::kNumBlocks))> {
  static constexpr int kCount = Epilogue::kNumBlocks;
  static constexpr unsigned kStores = Epilogue::kBlockStores, kTiles = Epilogue::kResultTiles;
  static constexpr int kRows = Epilogue::kRowsOfBlock;
  static_assert(kRows == 1 || kRows == kBlockColumns);
};

template <class Epilogue>
struct Operands {
  float row[at_least_one(Epilogue::Rows::kCount)];        // x[n]
  float col[at_least_one(Epilogue::Cols::kCount)];        // x[m]
  float tile[at_least_one(Epilogue::Tiles::kCount)];      // x[m, n]
  float scalar[at_least_one(Epilogue::Scalars::kCount)];  // x[]
  float parameter[at_least_one(Epilogue::kNumParameters)];
  float block[at_least_one(Blocks<Epilogue>::kCount)];  // the largest x[m, n] of a block
};

}  // namespace epifuse
