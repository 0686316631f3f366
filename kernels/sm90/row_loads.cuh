// Full operands that TMA cannot address, whose columns lie side by side in memory: a lane reads
// those of its two rows straight into the words that other full operands come to from staging.
#pragma once

#include "kernels/common/integers.cuh"
#include "kernels/sm90/staging.cuh"

namespace epifuse::sm90 {

// Of 16-bit and 32-bit elements, those in kRowLoads.
template <class Config, class Epilogue>
class RowLoads {
  static constexpr int kCount = Config::kRowLoads != 0 ? Epilogue::Tiles::kCount : 0;

 public:
  // Of a warp's rows of a chunk: where the lane's first pairs are. To be called before `load`.
  __device__ __forceinline__ void begin(const abi::GemmParams& p, const Chunk& chunk, int lane) {
    if constexpr (kCount > 0) {
      const int column = (lane & 3) * 2;
      const bool is_cut = kHasCuts<Config> && chunk.is_cut;
      const int columns = min(is_cut ? kCutColumns<Config> : kChunkColumns, p.n - chunk.col);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = chunk.row + (lane >> 2) + half * 8;
        const bool exists = row < row_end_of<Config>(p, chunk);
        columns_[half] = exists ? columns - column : 0;
        Epilogue::Tiles::for_each([&](auto type, int i) {
          if ((Config::kRowLoads >> i & 1) == 0) return;
          const abi::Matrix& matrix = p.plain_tiles[i];
          long long from = row;
          if (Config::kIndexedTiles >> i & 1) {
            from = exists ? row_to_read(p.rows_of_tiles[i], row) : 0;
          }
          long long at = from * matrix.row_stride + chunk.col + column;
          if constexpr (Config::Scheduler::kBatched) at += offset_of(matrix.batch, chunk.batch);
          first_[i][half] = static_cast<const char*>(matrix.data) +
                            at * static_cast<int>(sizeof(typename decltype(type)::Storage));
        });
      }
    }
  }

  // Group g of the i-th full operand, in the layout of the accumulator; zeros for what is not
  // there.
  template <class Element>
  __device__ __forceinline__ void load(int i, int g, uint32_t* words) const {
    if constexpr (kCount > 0) {
#pragma unroll
      for (int q = 0; q < 2; ++q) {
        const int column = g * kGroupColumns + q * 8;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const char* at = first_[i][half] + column * sizeof(typename Element::Storage);
          uint32_t* to = words + (is_wide<Element>() ? q * 4 + half * 2 : q * 2 + half);
          if (Config::kPairedLoads >> i & 1) {
            load_pair_of<Element>(at, column, columns_[half], to);
          } else {
            load_both<Element>(at, column, columns_[half], to);
          }
        }
      }
    }
  }

 private:
  // Two columns at once, which are both there or neither is; or one after the other.
  template <class Element>
  static __device__ __forceinline__ void load_pair_of(const char* at, int column, int columns,
                                                      uint32_t* to) {
    if constexpr (is_wide<Element>()) {
      load_if(at, column, columns, to[0], to[1]);
    } else {
      load_if(at, column, columns, to[0]);
    }
  }
  template <class Element>
  static __device__ __forceinline__ void load_both(const char* at, int column, int columns,
                                                   uint32_t* to) {
    if constexpr (is_wide<Element>()) {
      load_if(at, column, columns, to[0]);
      load_if(at + 4, column + 1, columns, to[1]);
    } else {
      uint16_t first, second;
      load_if(at, column, columns, first);
      load_if(at + 2, column + 1, columns, second);
      to[0] = first | static_cast<uint32_t>(second) << 16;
    }
  }

  const char* first_[at_least_one(kCount)][2];
  int columns_[2];  // from the lane's first one on, none in a row that is not there
};

}  // namespace epifuse::sm90
