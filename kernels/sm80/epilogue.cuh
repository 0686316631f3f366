// A warp's way out: its sums go through shared memory, so that a lane gets a few consecutive
// columns of a row -> the generated epilogue -> memory. Full-size operands are read and written in
// vectors, but for those of kNonTmaLoads and kNonTmaStores.
#pragma once

#include "kernels/sm80/block_maxima.cuh"
#include "kernels/sm80/reduce.cuh"
#include "kernels/sm80/vectors.cuh"

namespace epifuse::sm80 {

// The largest power of 2 up to `most`, of which each takes so much, that `room` holds; at least 1.
constexpr int most_that_fit(int most, int each, int room) {
  while (most > 1 && most * each > room) most /= 2;
  return most;
}

template <class Config, class Epilogue>
class WarpEpilogue {
  using Tiles = typename Epilogue::Tiles;
  static constexpr int kBlockRows = 16;
  static constexpr int kColumns = Config::kWarpN / kProducts<Config>;  // of results
  static constexpr int kLanes = kColumns / kVector;                    // of a row
  static constexpr int kRowsAtOnce = 32 / kLanes;
  // Of these 8 more than a multiple of 32: neither lanes that write nor those that read collide.
  static constexpr int kStagedFloats = Config::kWarpN + 8;
  static constexpr int kBlockBytes = kBlockRows * kStagedFloats * 4;
  using Reduction = WarpReduction<Config, kLanes, kVector>;
  using Maxima = BlockMaxima<Config, Epilogue, kLanes>;
  static constexpr int kResults = Epilogue::Stores::kCount + Reduction::kCount;

 public:
  static constexpr int kBlocks = Config::kWarpM / kBlockRows;
  using Sum = AccumulatorOf<Config::kAddsIntegers>;
  using Sums = Sum[kBlocks][Config::kWarpN / 8][4];

  // All blocks of 16 rows that there is room for go through shared memory at once: the code for
  // them is there once. In front of them are the maxima of all warps.
  static constexpr int kMaximaBytes = Maxima::kBytes;
  static constexpr int kStagedBlocks =
      most_that_fit(kBlocks, kThreads<Config> / 32 * kBlockBytes,
                    Config::kSharedBytes - kStagedAt<Config> - kMaximaBytes);
  static constexpr int kStagedBytes = kStagedBlocks * kBlockBytes;  // of a warp
  static_assert(kBlocks % kStagedBlocks == 0);

  // `warp_m`, `warp_n`: the warp's place among those of the tile. `shared`: of the epilogues.
  __device__ __forceinline__ WarpEpilogue(const abi::GemmParams& p, const Tile& tile, int warp_m,
                                          int warp_n, unsigned char* shared, int warp, int lane)
      : p_(p),
        tile_(tile),
        lane_(lane),
        row_(tile.m + warp_m * Config::kWarpM),
        first_(tile.n + warp_n * kColumns),
        column_(first_ + lane % kLanes * kVector),
        columns_(p.n - column_),
        staged_(reinterpret_cast<float*>(shared + kMaximaBytes + warp * kStagedBytes)),
        maxima_(shared, warp_n, lane) {}

  // Brings the full-size loads to L2, while the products are summed.
  __device__ __forceinline__ void prefetch_tiles() const {
    constexpr int kLineBytes = 128;
    Tiles::for_each([&](auto type, int i) {
      using Element = decltype(type);
      if (is_non_tma_load(i) || Config::kIndexedTiles >> i & 1) return;
      constexpr int kBytes = kColumns * static_cast<int>(sizeof(typename Element::Storage));
      constexpr int kLines = kBytes > kLineBytes ? 2 : 1;
#pragma unroll
      for (int r = 0; r < Config::kWarpM; r += 32 / kLines) {
        const int row = row_ + r + lane_ / kLines;
        const int column = first_ + lane_ % kLines * (kColumns / kLines);
        if (row < tile_.row_end && column < p_.n) {
          prefetch(element<Element>(p_.plain_tiles[i], row, column));
        }
      }
    });
  }

  // All rows of the warp.
  __device__ __forceinline__ void run(const Sums& sums) {
    load_vectors();
    Reduction reduction(lane_);
    if constexpr (Maxima::kCount > 0) {
      __syncthreads();  // all have those of the tile before
      go_through<Pass::maxima>(sums, reduction);
      __syncthreads();
    }
    go_through<Pass::results>(sums, reduction);
    if (row_ >= tile_.row_end) return;
    reduction.finish(p_, tile_, row_ / Config::kWarpM, column_, columns_);
  }

 private:
  enum class Pass { maxima, results };

  template <Pass kPass>
  __device__ __forceinline__ void go_through(const Sums& sums, Reduction& reduction) {
#pragma unroll
    for (int first = 0; first < kBlocks; first += kStagedBlocks) {
      uint32_t words[kAhead][kWords];
      fetch(first, 0, words);
#pragma unroll
      for (int block = 0; block < kStagedBlocks; ++block) stage(sums[first + block], block);
      __syncwarp();
#pragma unroll 1
      for (int turn = 0; turn < kTurns; turn += kAhead) {
        uint32_t next[kAhead][kWords];
        if (turn + kAhead < kTurns) fetch(first, turn + kAhead, next);
#pragma unroll
        for (int i = 0; i < kAhead; ++i) compute<kPass>(first, turn + i, words[i], reduction);
        copy(next, words);
      }
      __syncwarp();
    }
  }

  static constexpr int kTurns = kStagedBlocks * kBlockRows / kRowsAtOnce;
  static constexpr int kWords = at_least_one(vector_words<Tiles>());
  // Turns whose full-size loads are in flight at once, beside those that are computed; more would
  // take too many registers.
  static constexpr int kMostWords = 8, kMostTurns = Tiles::kCount > 0 ? 4 : 2;
  static constexpr int kAhead =
      most_that_fit(kMostTurns < kTurns ? kMostTurns : kTurns, kWords, kMostWords);
  static_assert(kTurns % kAhead == 0);

  static __device__ __forceinline__ void copy(const uint32_t (&from)[kAhead][kWords],
                                              uint32_t (&to)[kAhead][kWords]) {
    if constexpr (Tiles::kCount == 0) return;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) to[i][w] = from[i][w];
    }
  }

  static __device__ __forceinline__ constexpr bool is_non_tma_load(int i) {
    return Config::kNonTmaLoads >> i & 1;
  }
  static __device__ __forceinline__ constexpr bool is_non_tma_store(int i) {
    return Config::kNonTmaStores >> i & 1;
  }
  // Of the result, that the lane has in a turn.
  __device__ __forceinline__ int row_of(int block, int turn) const {
    return row_ + block * kBlockRows + turn * kRowsAtOnce + lane_ / kLanes;
  }

  template <class Element>
  __device__ __forceinline__ typename Element::Storage* element(const abi::Matrix& matrix,
                                                                long long row, int column) const {
    long long at = row * matrix.row_stride + column * matrix.col_stride;
    if constexpr (Config::kBatched) at += offset_of(matrix.batch, tile_.batch);
    return static_cast<typename Element::Storage*>(matrix.data) + at;
  }
  template <class Element>
  __device__ __forceinline__ float load_one(const abi::Vector& vector, long long i) const {
    long long at = i * vector.stride;
    if constexpr (Config::kBatched) at += offset_of(vector.batch, tile_.batch);
    return Element::load(static_cast<const typename Element::Storage*>(vector.data)[at]);
  }

  // What is the same for all rows.
  __device__ __forceinline__ void load_vectors() {
#pragma unroll
    for (int i = 0; i < Epilogue::kNumParameters; ++i) x_.parameter[i] = p_.parameters[i];
    Epilogue::Scalars::for_each(
        [&](auto type, int i) { x_.scalar[i] = load_one<decltype(type)>(p_.scalars[i], 0); });
    Epilogue::Rows::for_each([&](auto type, int i) {
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        rows_[i][e] = e < columns_ ? load_one<decltype(type)>(p_.rows[i], column_ + e) : 0.0f;
      }
    });
  }

  // The full-size loads of kAhead turns.
  __device__ __forceinline__ void fetch(int block, int turn,
                                        uint32_t (&words)[kAhead][kWords]) const {
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int row = row_of(block, turn + ahead);
      uint32_t* to = words[ahead];
      Tiles::for_each([&](auto type, int i) {
        using Element = decltype(type);
        const abi::Matrix& matrix = p_.plain_tiles[i];
        if (row < tile_.row_end && columns_ > 0) {
          long long from = row;
          if (Config::kIndexedTiles >> i & 1) from = row_to_read(p_.rows_of_tiles[i], row);
          load_vector<Element>(element<Element>(matrix, from, column_), !is_non_tma_load(i),
                               matrix.col_stride, columns_, to);
        }
        to += kVectorWords<Element>;
      });
    }
  }

  // A lane of a fragment has two columns of two rows of each 8 columns. Of elements of 8 bits that
  // run along M or N, rows or columns of 16 stand by turns (kernels/sm80/stage.cuh).
  __device__ __forceinline__ void stage(const Sum (&sums)[Config::kWarpN / 8][4], int block) const {
    constexpr bool kHasBytes = sizeof(typename Config::Element::Storage) == 1;
    constexpr bool kRowsByTurns = kHasBytes && !Config::kAIsKMajor;
    constexpr bool kColumnsByTurns = kHasBytes && !Config::kBIsKMajor;
    constexpr int kNextRow = (kRowsByTurns ? 1 : 8) * kStagedFloats;
    const int row = block * kBlockRows + (lane_ >> 2) * (kRowsByTurns ? 2 : 1);
    float* to = staged_ + row * kStagedFloats + (lane_ & 3) * (kColumnsByTurns ? 4 : 2);
    if constexpr (kColumnsByTurns) {
#pragma unroll
      for (int j = 0; j < Config::kWarpN / 8; j += 2) {
        const Sum(&even)[4] = sums[j], (&odd)[4] = sums[j + 1];
        *reinterpret_cast<float4*>(to + j * 8) = {sum_of(even[0]), sum_of(odd[0]), sum_of(even[1]),
                                                  sum_of(odd[1])};
        *reinterpret_cast<float4*>(to + kNextRow + j * 8) = {sum_of(even[2]), sum_of(odd[2]),
                                                             sum_of(even[3]), sum_of(odd[3])};
      }
    } else {
#pragma unroll
      for (int j = 0; j < Config::kWarpN / 8; ++j) {
        *reinterpret_cast<float2*>(to + j * 8) =
            make_float2(sum_of(sums[j][0]), sum_of(sums[j][1]));
        *reinterpret_cast<float2*>(to + kNextRow + j * 8) =
            make_float2(sum_of(sums[j][2]), sum_of(sums[j][3]));
      }
    }
  }

  // The lane's sums of a turn, of both products.
  __device__ __forceinline__ void take(int turn, float (&sums)[kProducts<Config>][kVector]) const {
    const float* row = staged_ + (turn * kRowsAtOnce + lane_ / kLanes) * kStagedFloats;
    const int column = lane_ % kLanes * kVector;
    float all[kProducts<Config>][kVector];
#pragma unroll
    for (int i = 0; i < kProducts<Config>; ++i) {
      const int at = Config::kAdjacentGates ? column * 2 + i * kVector : column + i * kColumns;
      const float4 x = *reinterpret_cast<const float4*>(row + at);
      all[i][0] = x.x;
      all[i][1] = x.y;
      all[i][2] = x.z;
      all[i][3] = x.w;
    }
#pragma unroll
    for (int i = 0; i < kProducts<Config>; ++i) {
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        const int at = e * 2 + i;
        sums[i][e] = Config::kAdjacentGates ? all[at / kVector][at % kVector] : all[i][e];
      }
    }
  }

  template <Pass kPass>
  __device__ __forceinline__ void compute(int block, int turn, const uint32_t* words,
                                          Reduction& reduction) {
    const int row = row_of(block, turn);
    const int columns = row < tile_.row_end ? columns_ : 0;
    load_cols(min(row, tile_.row_end - 1));
    float sums[kProducts<Config>][kVector];
    take(turn, sums);
    float results[kVector][kResults];
    typename Maxima::Values largest;
#pragma unroll
    for (int b = 0; b < Maxima::kCount; ++b) largest[b] = identity<Reduce::max>();
    if constexpr (kPass == Pass::results) maxima_.take(row - tile_.m, x_.block);
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
#pragma unroll
      for (int i = 0; i < Epilogue::Rows::kCount; ++i) x_.row[i] = rows_[i][e];
      const uint32_t* from = words;
      Tiles::for_each([&](auto type, int i) {
        x_.tile[i] = element_of<decltype(type)>(from, e);
        from += kVectorWords<decltype(type)>;
      });
      // Which leaves in the sums' place what results are made of.
      if constexpr (Maxima::kCount > 0) {
        typename Maxima::Values values;
        if constexpr (Config::kGated) {
          Epilogue::measure(sums[0][e], sums[1][e], x_, values);
        } else {
          Epilogue::measure(sums[0][e], x_, values);
        }
#pragma unroll
        for (int b = 0; b < Maxima::kCount; ++b) {
          if (e < columns) largest[b] = combine<Reduce::max>(largest[b], values[b]);
        }
        if constexpr (kPass == Pass::maxima) continue;
      }
      if constexpr (Config::kGated) {
        Epilogue::apply(sums[0][e], sums[1][e], x_, results[e]);
      } else {
        Epilogue::apply(sums[0][e], x_, results[e]);
      }
    }
    if constexpr (kPass == Pass::maxima) return maxima_.put(row - tile_.m, largest);
    if (columns > 0) store(row, columns, results);
    if constexpr (Reduction::kCount > 0) {
      reduction.add(p_, tile_, first_ / kColumns, row, columns, results);
    }
  }

  __device__ __forceinline__ void load_cols(int row) {
    Epilogue::Cols::for_each([&](auto type, int i) {
      long long from = row;
      if (Config::kIndexedCols >> i & 1) from = row_to_read(p_.rows_of_cols[i], row);
      x_.col[i] = load_one<decltype(type)>(p_.cols[i], from);
    });
  }

  __device__ __forceinline__ void store(int row, int columns,
                                        const float (&results)[kVector][kResults]) const {
    Epilogue::Stores::for_each([&](auto type, int i) {
      using Element = decltype(type);
      const abi::Matrix& matrix = p_.non_tma_stores[i];
      long long to = row;
      if (Config::kIndexedStores >> i & 1) {
        to = named_row(p_.rows_of_stores[i], row);
        if (to < 0 || to >= p_.rows_of_stores[i].num_rows) return;
      }
      if (Blocks<Epilogue>::kStores >> i & 1) {  // by who has the block's first column
        if (column_ % kBlockColumns != 0) return;
        *element<Element>(matrix, to, column_ / kBlockColumns) = Element::store(results[0][i]);
        return;
      }
      float values[kVector];
#pragma unroll
      for (int e = 0; e < kVector; ++e) values[e] = results[e][i];
      store_vector<Element>(element<Element>(matrix, to, column_), !is_non_tma_store(i),
                            matrix.col_stride, columns, values);
    });
  }

  const abi::GemmParams& p_;
  const Tile& tile_;
  int lane_, row_, first_, column_, columns_;  // columns_: of the result, from column_ on
  float* staged_;
  float rows_[at_least_one(Epilogue::Rows::kCount)][kVector];
  Operands<Epilogue> x_;
  Maxima maxima_;
};

}  // namespace epifuse::sm80
