// A consumer warp's way out: accumulators, 16 rows x 64 columns at a time -> the generated epilogue
// -> staging, whence TMA takes them (kernels/sm90/transfer.cuh), as it brings full-size loads
// there. What it cannot address (kNonTmaLoads, kNonTmaStores) is read and written element by
// element, but for rows whose columns lie side by side (kRowLoads, kCopiedStores).
#pragma once

#include "kernels/common/integers.cuh"
#include "kernels/sm90/block_maxima.cuh"
#include "kernels/sm90/reduce.cuh"
#include "kernels/sm90/row_copies.cuh"
#include "kernels/sm90/row_loads.cuh"
#include "kernels/sm90/staging.cuh"
#include "kernels/sm90/tile_scheduler.cuh"

namespace epifuse::sm90 {

// `Layout` is a SharedLayout. Both ring depths divide the chunks of a tile, so that a chunk's place
// in its ring is known at compile time. Where a cluster splits K, each CTA runs some of the chunks
// only, and rings are one deep. In place: results are staged where the loads were, and a place's
// next load waits for its store.
template <class Layout, class Epilogue>
class WarpEpilogue {
  using Config = typename Layout::Config;
  using Consumers = typename Config::Consumers;
  using Staging = typename Config::Staging;
  using Blocks = epifuse::Blocks<Epilogue>;

 public:
  static constexpr int kRows = at_least_one(Epilogue::Rows::kCount);
  static constexpr int kCols = at_least_one(Epilogue::Cols::kCount);
  static constexpr int kLoadSlots = Layout::kLoadSlots, kStoreSlots = Layout::kStoreSlots;
  static constexpr int kCopySlots = Layout::kCopySlots;
  static constexpr bool kInPlace = Staging::kInPlace;
  static constexpr int kWarpBytes = kBytesOfWarp<Staging::kTransposed>;
  static constexpr unsigned kLoadedAlone = Config::kNonTmaLoads & ~Config::kRowLoads;
  static constexpr unsigned kStoredAlone = Config::kNonTmaStores & ~Config::kCopiedStores;

  static constexpr int kMathGroups = Config::kMathColumns / kGroupColumns;
  static constexpr int kInWords = group_words<typename Epilogue::Tiles>(kLoadedAlone);
  static constexpr int kOutWords = group_words<typename Epilogue::Stores>(kStoredAlone);
  static constexpr int kChunks = kChunksOfConsumer<Config>;
  // Row vectors are read before the stores that precede their use; that takes registers.
  static constexpr bool kReadsAhead = kChunks <= 4 || !Config::Scheduler::kTwoWidths;
  // So do a lane's places in staging, if they are not computed for each chunk.
  static constexpr bool kForgetsPlaces = kChunks > 4;
  static_assert(kChunks % Staging::kLoadDepth == 0 && kChunks % Staging::kStoreDepth == 0);
  static_assert(Consumers::kSplitK == 1 || (Staging::kLoadDepth == 1 && Staging::kStoreDepth == 1));
  static_assert(!kInPlace || kStoreSlots == kLoadSlots);
  static_assert(kCopySlots == 0 || !Config::Scheduler::kOwnParams, "one block of parameters");

  __device__ __forceinline__ WarpEpilogue(const abi::GemmParams& p, int group, int warp, int lane)
      : p_(p), group_(group), warp_(warp), lane_(lane) {
#pragma unroll
    for (int i = 0; i < Epilogue::kNumParameters; ++i) x_.parameter[i] = p.parameters[i];
  }

  // The values x[] of a product.
  __device__ __forceinline__ void load_scalars(const abi::GemmParams& p, Batch batch) {
    Epilogue::Scalars::for_each([&](auto type, int i) {
      using T = decltype(type);
      x_.scalar[i] = decode_bits<T>(fetch_bits<Config, T>(p.scalars[i], 0, batch));
    });
  }

  // The values x[m] of this lane's two rows, as raw bits.
  __device__ __forceinline__ void set_cols(const uint32_t (&low)[kCols],
                                           const uint32_t (&high)[kCols]) {
    Epilogue::Cols::for_each([&](auto type, int i) {
      low_cols_[i] = decode_bits<decltype(type)>(low[i]);
      high_cols_[i] = decode_bits<decltype(type)>(high[i]);
    });
  }

  // Reads what the first columns of a tile's i-th chunk need of the row vectors; to be called
  // before the first chunk that is run. `rows`: the tile's row vectors, kResultColumns apart.
  __device__ __forceinline__ void read_rows(const float* rows, int i) {
    if (kReadsAhead) read_rows(rows, i, 0);
  }

  // Runs the epilogue on a tile's i-th chunk, the consumer's chunk number `at` of it, and stages
  // the results; chunk `next` is to follow, unless it is kChunks. `acc`: 32 accumulators of the
  // lane, `second`: those of a gated product's second one; where they come by turns `acc` holds
  // all 64. `loads`: the chunk's full-size loads, where they come through the ring of stages.
  __device__ __forceinline__ void run(int i, int next, int at, const float* acc,
                                      const float* second, const float* rows,
                                      const unsigned char* loads, Chunk chunk) {
    begin_loads(at, chunk);
    if constexpr (Layout::kLoadDepth > 0) loads = Layout::loads(group_, load_place(at));
    loads += warp_ * kWarpBytes;
    ChunkReduction<Config> reduction(p_, chunk, lane_);
    const int lane = kForgetsPlaces ? anew(lane_) : lane_;
    // The math of kMathColumns first, then their stores to shared memory: a store in between
    // orders the loads behind it and leaves every group of columns to its own latency.
#pragma unroll
    for (int first = 0; first < groups(i); first += kMathGroups) {
      const int end = min(first + kMathGroups, groups(i));
      uint32_t out[kMathGroups][at_least_one(kOutWords)];
      if (!kReadsAhead) read_rows(rows, i, first);
#pragma unroll
      for (int g = first; g < end; ++g) {
        uint32_t in[at_least_one(kInWords)];
        load_tiles<Blocks::kTiles>(loads, g, in, lane);
        if constexpr (Config::kGates == Gates::by_turns) {
          float pairs[2][8];
          if constexpr (Blocks::kCount == 0) part_pairs(acc + g * 16, pairs, lane_);
#pragma unroll
          for (int x = 0; x < 16 && Blocks::kCount > 0; ++x) {
            pairs[x >> 3][x & 7] = acc[g * 16 + x];
          }
          compute(pairs[0], pairs[1], g * 2, in, out[g - first], chunk, reduction);
          compute(pairs[0] + 4, pairs[1] + 4, g * 2 + 1, in, out[g - first], chunk, reduction);
        } else {
          compute(acc + g * 8, second + g * 8, g * 2, in, out[g - first], chunk, reduction);
          compute(acc + g * 8 + 4, second + g * 8 + 4, g * 2 + 1, in, out[g - first], chunk,
                  reduction);
        }
      }
      if (kReadsAhead && end < groups(i)) {
        read_rows(rows, i, end);
      } else if (kReadsAhead && next < kChunks) {
        read_rows(rows, next, 0);
      }
      reduction.finalize_columns(first * kGroupColumns);
      if constexpr (kStoreSlots + kCopySlots == 0) continue;
      if (kStoreSlots > 0 && first == 0 && !kInPlace) {
        Layout::sent(group_, store_place(at))
            .wait(phase(at, stores_phase_, Staging::kStoreDepth) ^ 1);
      }
#pragma unroll
      for (int g = first; g < end; ++g) {
        store_tiles(store_slots(at), g, out[g - first], lane);
      }
    }
    reduction.finalize_rows();
    if constexpr (Layout::kStagedDepth > 0) {
      __syncwarp();
      if (lane_ == 0) Layout::staged(group_, at % Layout::kStagedDepth).arrive();
    }
    if constexpr (kCopySlots > 0) {
      __syncwarp();
      copy_rows_of_warp<Layout, Epilogue>(p_, group_, warp_, i, chunk, lane_);
      __syncwarp();  // before the next chunk is staged
    }
    if constexpr (Consumers::kSplitK > 1) end_chunks(1);
  }

  // Of the block of columns that begins with a tile's i-th chunk: the maxima that results depend
  // on. Leaves in `acc` and `second` what `run` makes results of; arguments are those of `run`.
  // All loads of the block are in staging at once, and stay there until `run` is done.
  __device__ __forceinline__ void measure(int i, float* acc, float* second, const float* rows,
                                          const Chunk& chunk) {
    static_assert(Layout::kLoadDepth == 0 || Staging::kLoadDepth >= kBlockColumns / kChunkColumns);
    const int lane_column = (lane_ & 3) * 2;
    rows += i % kChunksAcross<Config> * kChunkColumns + lane_column;
    const int columns = params_of<Config>(p_, chunk).n - chunk.col - lane_column;
    Chunk at_hand = chunk;
    uint32_t in[at_least_one(kInWords)];
    maxima_.measure(x_, low_cols_, high_cols_, acc, second, rows, columns, lane_,
                    [&](int first, int at) {
                      const int next = i + first / kChunkColumns, column = first % kChunkColumns;
                      at_hand.col = chunk.col + first - column;
                      const unsigned char* loads = Layout::loads(group_, load_place(next));
                      loads += warp_ * (kWarpRows * 128);
                      if (column == 0 && at == 0) begin_loads(next, at_hand);
                      if (at == 0) load_tiles(loads, column / kGroupColumns, in, lane_);
                      read_tiles(in, column / 8 + (at >> 2), at >> 1 & 1, at & 1, at_hand);
                    });
  }
  __device__ __forceinline__ auto& maxima() { return maxima_; }

  // Of a chunk that has no rows: waits and tells the others as `run` does.
  __device__ __forceinline__ void pass(int at) {
    if constexpr (Layout::kLoadDepth > 0) {
      Layout::loaded(group_, load_place(at)).wait(phase(at, loads_phase_, Staging::kLoadDepth));
    }
    if constexpr (kStoreSlots > 0 && !kInPlace) {
      Layout::sent(group_, store_place(at))
          .wait(phase(at, stores_phase_, Staging::kStoreDepth) ^ 1);
    }
    if constexpr (Layout::kStagedDepth > 0) {
      __syncwarp();
      if (lane_ == 0) Layout::staged(group_, at % Layout::kStagedDepth).arrive();
    }
  }

  // Call after the last chunk of every tile.
  __device__ __forceinline__ void end_tile() { end_chunks(kChunks); }

 private:
  static __device__ __forceinline__ constexpr bool is_loaded_alone(int i) {
    return kLoadedAlone >> i & 1;
  }
  static __device__ __forceinline__ constexpr bool is_stored_alone(int i) {
    return kStoredAlone >> i & 1;
  }

  // Of 16 columns, in a tile's i-th chunk.
  static __device__ __forceinline__ constexpr int groups(int i) {
    const bool is_partial =
        kResultColumns<Config> % kChunkColumns != 0 && (i + 1) % kChunksAcross<Config> == 0;
    return is_partial ? kResultColumns<Config> % kChunkColumns / kGroupColumns : kGroups;
  }
  static __device__ __forceinline__ constexpr int load_place(int i) {
    return i % Staging::kLoadDepth;
  }
  static __device__ __forceinline__ constexpr int store_place(int i) {
    return i % (kInPlace ? Staging::kLoadDepth : Staging::kStoreDepth);
  }
  // This warp's part of the first slot of a chunk.
  __device__ __forceinline__ unsigned char* store_slots(int i) const {
    return Layout::stores(group_, store_place(i)) + warp_ * kWarpBytes;
  }
  __device__ __forceinline__ unsigned char* copy_slots() const {
    return Layout::copies(group_) + warp_ * (kWarpRows * 128);
  }

  // Of a barrier in a ring, at the i-th chunk of a tile that began in phase `first`.
  static __device__ __forceinline__ uint32_t phase(int i, uint32_t first, int depth) {
    return Consumers::kSplitK > 1 ? first : first ^ (i / depth & 1);
  }
  __device__ __forceinline__ void end_chunks(int count) {
    if constexpr (Layout::kLoadDepth > 0) loads_phase_ ^= count / Staging::kLoadDepth & 1;
    if constexpr (kStoreSlots > 0) stores_phase_ ^= count / Staging::kStoreDepth & 1;
  }

  // Before the first full operand of a tile's i-th chunk is read.
  __device__ __forceinline__ void begin_loads(int i, const Chunk& chunk) {
    if constexpr (Layout::kLoadDepth > 0) {
      Layout::loaded(group_, load_place(i)).wait(phase(i, loads_phase_, Staging::kLoadDepth));
    }
    row_loads_.begin(p_, chunk, lane_);
  }

  // Bit i of `kWanted`: whether the i-th is read.
  template <unsigned kWanted = ~0u>
  __device__ __forceinline__ void load_tiles(const unsigned char* slot, int g, uint32_t* in,
                                             int lane) {
    Epilogue::Tiles::for_each([&](auto type, int i) {
      if (is_loaded_alone(i)) return;
      using List = Types<decltype(type)>;
      if (!(kWanted >> i & 1)) {
        if (!(Config::kRowLoads >> i & 1)) slot += slots<List>() * kSlotBytes;
      } else if (Config::kRowLoads >> i & 1) {
        row_loads_.template load<decltype(type)>(i, g, in);
      } else {
        load_group<decltype(type), Staging::kTransposed>(slot, g, in, lane);
        slot += slots<List>() * kSlotBytes;
      }
      in += group_words<List>();
    });
  }

  // For kMathGroups groups of columns from `first` on.
  __device__ __forceinline__ void read_rows(const float* rows, int i, int first) {
    rows += i % kChunksAcross<Config> * kChunkColumns + (lane_ & 3) * 2;
#pragma unroll
    for (int r = 0; r < Epilogue::Rows::kCount; ++r) {
#pragma unroll
      for (int q = 0; q < 2 * kMathGroups; ++q) {
        if (first + q / 2 >= groups(i)) continue;
        row_pairs_[r][q] = *reinterpret_cast<const float2*>(rows + r * kResultColumns<Config> +
                                                            (first * 2 + q) * 8);
      }
    }
  }

  // Of the lane's e-th column of columns q * 8 .. q * 8 + 7 of the chunk; `in`: of their group.
  template <unsigned kWanted = ~0u>
  __device__ __forceinline__ void read_tiles(const uint32_t* in, int q, int half, int e,
                                             const Chunk& chunk) {
    Epilogue::Tiles::for_each([&](auto type, int i) {
      using T = decltype(type);
      if (!is_loaded_alone(i)) {
        if (kWanted >> i & 1) x_.tile[i] = read_word<T>(in, q & 1, half, e);
        in += group_words<Types<T>>();
      } else if (kWanted >> i & 1) {
        x_.tile[i] = load_plain<T>(i, half * 8, q * 8 + (lane_ & 3) * 2 + e, chunk);
      }
    });
  }

  // Columns q * 8 .. q * 8 + 7 of the chunk: two columns of two rows a lane.
  __device__ __forceinline__ void compute(const float* acc, const float* second, int q,
                                          const uint32_t* in, uint32_t* out, const Chunk& chunk,
                                          ChunkReduction<Config>& reduction) {
    const int column = q * 8 + (lane_ & 3) * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float results[2][Epilogue::Stores::kCount + ChunkReduction<Config>::kCount];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
#pragma unroll
        for (int i = 0; i < Epilogue::Rows::kCount; ++i) {
          const float2 pair = row_pairs_[i][q % (2 * kMathGroups)];
          x_.row[i] = e == 0 ? pair.x : pair.y;
        }
#pragma unroll
        for (int i = 0; i < Epilogue::Cols::kCount; ++i) {
          x_.col[i] = half == 0 ? low_cols_[i] : high_cols_[i];
        }
#pragma unroll
        for (int b = 0; b < Blocks::kCount; ++b) x_.block[b] = maxima_.largest[half][b];
        read_tiles<Blocks::kTiles>(in, q, half, e, chunk);
        if constexpr (Config::kGates != Gates::none) {
          Epilogue::apply(acc[half * 2 + e], second[half * 2 + e], x_, results[e]);
        } else {
          Epilogue::apply(acc[half * 2 + e], x_, results[e]);
        }
      }
      uint32_t* words = out;
      Epilogue::Stores::for_each([&](auto type, int i) {
        using T = decltype(type);
        if (Blocks::kStores >> i & 1) {
          if (q == 0) store_first<T>(i, half * 8, chunk, results[0][i]);
        } else if (is_stored_alone(i)) {
          store_plain<T>(i, half * 8, column, chunk, results[0][i]);
          store_plain<T>(i, half * 8, column + 1, chunk, results[1][i]);
        } else {
          write_pair<T>(words, q & 1, half, results[0][i], results[1][i]);
          words += group_words<Types<T>>();
        }
      });
      if constexpr (ChunkReduction<Config>::kCount > 0) {
        constexpr int kFirst = Epilogue::Stores::kCount;
        reduction.add(q, half, results[0] + kFirst, results[1] + kFirst);
      }
    }
  }

  // Whether the element `row` rows below the lane's first one in the chunk is in the result.
  __device__ __forceinline__ bool exists(int row, int column, const Chunk& chunk) const {
    const bool is_cut = kHasCuts<Config> && chunk.is_cut && column >= kCutColumns<Config>;
    return row_of(row, chunk) < row_end_of<Config>(p_, chunk) && chunk.col + column < p_.n &&
           !is_cut;
  }
  __device__ __forceinline__ int row_of(int row, const Chunk& chunk) const {
    return chunk.row + (lane_ >> 2) + row;
  }
  template <class Element>
  __device__ __forceinline__ typename Element::Storage* element(const abi::Matrix& matrix,
                                                                long long row, int column,
                                                                const Chunk& chunk) const {
    long long at = row * matrix.row_stride + (chunk.col + column) * matrix.col_stride;
    if constexpr (Config::Scheduler::kBatched) at += offset_of(matrix.batch, chunk.batch);
    return static_cast<typename Element::Storage*>(matrix.data) + at;
  }
  template <class Element>
  __device__ __forceinline__ float load_plain(int i, int row, int column,
                                              const Chunk& chunk) const {
    if (!exists(row, column, chunk)) return 0.0f;
    long long from = row_of(row, chunk);
    if (Config::kIndexedTiles >> i & 1) from = row_to_read(p_.rows_of_tiles[i], from);
    return Element::load(*element<Element>(p_.plain_tiles[i], from, column, chunk));
  }
  template <class Element>
  __device__ __forceinline__ void store_plain(int i, int row, int column, const Chunk& chunk,
                                              float x) const {
    if (!exists(row, column, chunk)) return;
    long long to = row_of(row, chunk);
    if (Config::kIndexedStores >> i & 1) {
      to = named_row(p_.rows_of_stores[i], to);
      if (to < 0 || to >= p_.rows_of_stores[i].num_rows) return;
    }
    *element<Element>(p_.non_tma_stores[i], to, column, chunk) = Element::store(x);
  }

  // Of a block's first column and row, which one lane of each row has.
  template <class Element>
  __device__ __forceinline__ void store_first(int i, int row, const Chunk& chunk, float x) const {
    const int at = row_of(row, chunk);
    const bool is_first = (lane_ & 3) == 0 && chunk.col % kBlockColumns == 0;
    if (!is_first || at % Blocks::kRows != 0 || !exists(row, 0, chunk)) return;
    const int column = chunk.col / kBlockColumns - chunk.col;
    *element<Element>(p_.non_tma_stores[i], at / Blocks::kRows, column, chunk) = Element::store(x);
  }

  __device__ __forceinline__ void store_tiles(unsigned char* sent, int g, const uint32_t* out,
                                              int lane) {
    unsigned char* copied = kCopySlots > 0 ? copy_slots() : nullptr;
    Epilogue::Stores::for_each([&](auto type, int i) {
      if (is_stored_alone(i)) return;
      using List = Types<decltype(type)>;
      unsigned char*& slot = Config::kCopiedStores >> i & 1 ? copied : sent;
      store_group<decltype(type), Staging::kTransposed>(slot, g, out, lane);
      slot += slots<List>() * kSlotBytes;
      out += group_words<List>();
    });
  }

  const abi::GemmParams& p_;
  int group_, warp_, lane_;
  uint32_t loads_phase_ = 0, stores_phase_ = 0;  // of a ring's barriers at its next chunk
  float low_cols_[kCols], high_cols_[kCols];
  BlockMaxima<Config, Epilogue> maxima_;  // of the block at hand
  RowLoads<Config, Epilogue> row_loads_;
  float2 row_pairs_[kRows][2 * kMathGroups];  // read ahead
  Operands<Epilogue> x_;
};

}  // namespace epifuse::sm90
