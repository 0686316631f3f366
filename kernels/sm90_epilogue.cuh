// A consumer warp's way out: accumulators, 16 rows x 64 columns at a time -> the generated epilogue
// -> warp-private staging -> TMA stores. Full-size loads come in by TMA, kLoadDepth chunks ahead.
//
// Staging is made of slots: 16 rows of 128 bytes, 128-byte swizzle. A chunk takes one slot of a
// 16-bit element type and two of a 32-bit one.
#pragma once

#include "kernels/element.cuh"
#include "kernels/operands.cuh"
#include "kernels/sm90_primitives.cuh"

namespace epifuse::sm90 {

constexpr int kChunkColumns = 64;
constexpr int kWarpRows = 16;
constexpr int kSlotBytes = kWarpRows * 128;

template <class List>
constexpr int slots() {
  return List::kBytes / 2;
}

// Columns are handled 16 at a time: a group is 4 words a lane of a 16-bit type, 8 of a 32-bit one.
constexpr int kGroupColumns = 16;
constexpr int kGroups = kChunkColumns / kGroupColumns;

template <class List>
constexpr int group_words() {
  return slots<List>() * 4;
}

// Element of a loaded group: 8-column block q (0 or 1), row half, e-th column of the lane's pair.
template <class Element>
__device__ __forceinline__ float read_word(const uint32_t* words, int q, int half, int e) {
  if constexpr (sizeof(typename Element::Storage) == 4) {
    return __uint_as_float(words[q * 4 + half * 2 + e]);
  } else {
    const float2 pair = unpack<Element>(words[q * 2 + half]);
    return e == 0 ? pair.x : pair.y;
  }
}

template <class Element>
__device__ __forceinline__ void write_pair(uint32_t* words, int q, int half, float x, float y) {
  if constexpr (sizeof(typename Element::Storage) == 4) {
    words[q * 4 + half * 2] = __float_as_uint(x);
    words[q * 4 + half * 2 + 1] = __float_as_uint(y);
  } else {
    words[q * 2 + half] = pack<Element>(x, y);
  }
}

// Group g of a chunk from its slots to registers, in the layout of the accumulator.
template <class Element>
__device__ __forceinline__ void load_group(const unsigned char* slot, int g, uint32_t* words,
                                           int lane) {
  if constexpr (sizeof(typename Element::Storage) == 4) {
    slot += g / 2 * kSlotBytes;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = (lane >> 2) + (i & 1) * 8;
      const int piece = g % 2 * 4 + (i >> 1) * 2 + ((lane & 3) >> 1);
      const uint2 pair = *reinterpret_cast<const uint2*>(
          slot + row * 128 + ((piece ^ (row & 7)) << 4) + (lane & 1) * 8);
      words[i * 2] = pair.x;
      words[i * 2 + 1] = pair.y;
    }
  } else {
    const int row = lane & 15, piece = g * 2 + (lane >> 4);
    load_matrices(slot + row * 128 + ((piece ^ (row & 7)) << 4), words);
  }
}

// Group g of a chunk from registers to its slots.
template <class Element>
__device__ __forceinline__ void store_group(unsigned char* slot, int g, const uint32_t* words,
                                            int lane) {
  if constexpr (sizeof(typename Element::Storage) == 4) {
    slot += g / 2 * kSlotBytes;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = (lane >> 2) + (i & 1) * 8;
      const int piece = g % 2 * 4 + (i >> 1) * 2 + ((lane & 3) >> 1);
      *reinterpret_cast<uint2*>(slot + row * 128 + ((piece ^ (row & 7)) << 4) + (lane & 1) * 8) =
          make_uint2(words[i * 2], words[i * 2 + 1]);
    }
  } else {
    const int row = lane & 15, piece = g * 2 + (lane >> 4);
    store_matrices(slot + row * 128 + ((piece ^ (row & 7)) << 4), words);
  }
}

// One vector's raw bits at index i. Converting them only when they are used lets the load complete
// under the mainloop.
template <class Element>
__device__ __forceinline__ uint32_t fetch_bits(const abi::Vector& vector, long long i) {
  const char* address =
      static_cast<const char*>(vector.data) +
      i * vector.stride * static_cast<long long>(sizeof(typename Element::Storage));
  if constexpr (sizeof(typename Element::Storage) == 4) {
    uint32_t bits;
    asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(bits) : "l"(address));
    return bits;
  } else {
    unsigned short bits;
    asm volatile("ld.global.nc.b16 %0, [%1];" : "=h"(bits) : "l"(address));
    return bits;
  }
}

template <class Element>
__device__ __forceinline__ float decode_bits(uint32_t bits) {
  if constexpr (sizeof(typename Element::Storage) == 4) {
    return __uint_as_float(bits);
  } else {
    return Element::load(static_cast<uint16_t>(bits));
  }
}

// Where a warp's chunk of 16 x 64 outputs lies in the result.
struct Chunk {
  int row, col;
};

// The kernel's dynamic shared memory. Addresses are computed from it where they are used: kept in
// registers they would crowd out accumulators.
__device__ __forceinline__ unsigned char* shared_memory() {
  extern __shared__ __align__(1024) unsigned char shared[];
  return shared;
}

// kLoadsAt, kStoresAt, kArrivedAt: where the staging of all warps starts in shared memory, and the
// barriers of the loads. A tile is kChunks chunks for a warp; both ring depths divide kChunks, so
// that a chunk's place in its ring is known at compile time.
template <class Config, class Epilogue>
class WarpEpilogue {
 public:
  static constexpr int kRows = at_least_one(Epilogue::Rows::kCount);
  static constexpr int kCols = at_least_one(Epilogue::Cols::kCount);
  static constexpr int kLoadSlots = slots<typename Epilogue::Tiles>();
  static constexpr int kStoreSlots = slots<typename Epilogue::Stores>();
  static constexpr int kLoadBytes = Config::kLoadDepth * kLoadSlots * kSlotBytes;     // a warp
  static constexpr int kStoreBytes = Config::kStoreDepth * kStoreSlots * kSlotBytes;  // a warp

  static constexpr int kMathGroups = Config::kMathColumns / kGroupColumns;
  static constexpr int kOutWords = group_words<typename Epilogue::Stores>();
  static constexpr int kChunks = Config::kTileM / 64 * (Config::kTileN / kChunkColumns);
  static_assert(kChunks % Config::kLoadDepth == 0 && kChunks % Config::kStoreDepth == 0);

  __device__ __forceinline__ WarpEpilogue(const abi::GemmParams& p, int warp, int lane)
      : p_(p), warp_(warp), lane_(lane) {
    Epilogue::Scalars::for_each([&](auto type, int i) {
      using T = decltype(type);
      x_.scalar[i] = T::load(*static_cast<const typename T::Storage*>(p.scalars[i]));
    });
#pragma unroll
    for (int i = 0; i < Epilogue::kNumParameters; ++i) x_.parameter[i] = p.parameters[i];
  }

  // Starts the loads of a tile's i-th chunk. Chunks are asked for in the order they will be run.
  __device__ __forceinline__ void request(int i, Chunk chunk) {
    if constexpr (kLoadSlots > 0) {
      if (lane_ == 0) {
        unsigned char* slot = load_slots(i);
        FullBarrier& barrier = arrived(i);
        barrier.arrive_and_expect_tx(kLoadSlots * kSlotBytes);
        Epilogue::Tiles::for_each([&](auto type, int tile) {
          constexpr int kColumns = 128 / sizeof(typename decltype(type)::Storage);
#pragma unroll
          for (int c = 0; c < kChunkColumns; c += kColumns, slot += kSlotBytes) {
            load_box(p_.tiles[tile], barrier, slot, chunk.row, chunk.col + c);
          }
        });
      }
    }
  }

  // The values x[m] of this lane's two rows, as raw bits.
  __device__ __forceinline__ void set_cols(const uint32_t (&low)[kCols],
                                           const uint32_t (&high)[kCols]) {
    Epilogue::Cols::for_each([&](auto type, int i) {
      low_cols_[i] = decode_bits<decltype(type)>(low[i]);
      high_cols_[i] = decode_bits<decltype(type)>(high[i]);
    });
  }

  // Runs the epilogue on a tile's i-th chunk and starts its stores. `acc`: 32 accumulators of the
  // lane; `rows`: the tile's row vectors at the chunk's first column, kTileN apart.
  __device__ __forceinline__ void run(int i, const float* acc, const float* rows, Chunk chunk) {
    if constexpr (kLoadSlots > 0) arrived(i).wait(phase_ ^ (i / Config::kLoadDepth & 1));
      // The math of kMathColumns first, then their stores to shared memory: a store in between
      // orders the loads behind it and leaves every group of columns to its own latency.
#pragma unroll
    for (int first = 0; first < kGroups; first += kMathGroups) {
      uint32_t out[kMathGroups][kOutWords];
#pragma unroll
      for (int g = first; g < first + kMathGroups; ++g) {
        uint32_t in[at_least_one(group_words<typename Epilogue::Tiles>())];
        load_tiles(load_slots(i), g, in);
        compute(acc + g * 8, rows, g * 2, in, out[g - first]);
        compute(acc + g * 8 + 4, rows, g * 2 + 1, in, out[g - first]);
      }
      if (first == 0) await_store_slots();
#pragma unroll
      for (int g = first; g < first + kMathGroups; ++g) {
        store_tiles(store_slots(i), g, out[g - first]);
      }
    }
    send(i, chunk);
  }

  // Call after the last chunk of every tile.
  __device__ __forceinline__ void end_tile() { phase_ ^= kChunks / Config::kLoadDepth & 1; }

  // Waits until every store has read its staging.
  __device__ __forceinline__ void finish() {
    if (lane_ == 0) cute::tma_store_wait<0>();
  }

 private:
  __device__ __forceinline__ unsigned char* load_slots(int i) const {
    return shared_memory() + Config::kLoadsAt + warp_ * kLoadBytes +
           i % Config::kLoadDepth * (kLoadSlots * kSlotBytes);
  }
  __device__ __forceinline__ unsigned char* store_slots(int i) const {
    return shared_memory() + Config::kStoresAt + warp_ * kStoreBytes +
           i % Config::kStoreDepth * (kStoreSlots * kSlotBytes);
  }
  __device__ __forceinline__ FullBarrier& arrived(int i) const {
    return reinterpret_cast<FullBarrier*>(
        shared_memory() + Config::kArrivedAt)[warp_ * Config::kLoadDepth + i % Config::kLoadDepth];
  }

  __device__ __forceinline__ void load_tiles(const unsigned char* slot, int g, uint32_t* in) {
    Epilogue::Tiles::for_each([&](auto type, int) {
      using List = Types<decltype(type)>;
      load_group<decltype(type)>(slot, g, in, lane_);
      slot += slots<List>() * kSlotBytes;
      in += group_words<List>();
    });
  }

  // Columns q * 8 .. q * 8 + 7 of the chunk: two columns of two rows a lane.
  __device__ __forceinline__ void compute(const float* acc, const float* rows, int q,
                                          const uint32_t* in, uint32_t* out) {
    const int column = q * 8 + (lane_ & 3) * 2;
    float2 row_pairs[kRows];
#pragma unroll
    for (int i = 0; i < Epilogue::Rows::kCount; ++i) {
      row_pairs[i] = *reinterpret_cast<const float2*>(rows + i * Config::kTileN + column);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float results[2][Epilogue::Stores::kCount];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
#pragma unroll
        for (int i = 0; i < Epilogue::Rows::kCount; ++i) {
          x_.row[i] = e == 0 ? row_pairs[i].x : row_pairs[i].y;
        }
#pragma unroll
        for (int i = 0; i < Epilogue::Cols::kCount; ++i) {
          x_.col[i] = half == 0 ? low_cols_[i] : high_cols_[i];
        }
        const uint32_t* loaded = in;
        Epilogue::Tiles::for_each([&](auto type, int i) {
          x_.tile[i] = read_word<decltype(type)>(loaded, q & 1, half, e);
          loaded += group_words<Types<decltype(type)>>();
        });
        Epilogue::apply(acc[half * 2 + e], x_, results[e]);
      }
      uint32_t* words = out;
      Epilogue::Stores::for_each([&](auto type, int i) {
        write_pair<decltype(type)>(words, q & 1, half, results[0][i], results[1][i]);
        words += group_words<Types<decltype(type)>>();
      });
    }
  }

  __device__ __forceinline__ void store_tiles(unsigned char* slot, int g, const uint32_t* out) {
    Epilogue::Stores::for_each([&](auto type, int) {
      using List = Types<decltype(type)>;
      store_group<decltype(type)>(slot, g, out, lane_);
      slot += slots<List>() * kSlotBytes;
      out += group_words<List>();
    });
  }

  // Until the stores that last used the next slots have read them.
  __device__ __forceinline__ void await_store_slots() {
    if (lane_ == 0) cute::tma_store_wait<Config::kStoreDepth - 1>();
    __syncwarp();
  }

  __device__ __forceinline__ void send(int i, Chunk chunk) {
    unsigned char* slot = store_slots(i);
    cute::tma_store_fence();
    __syncwarp();
    if (lane_ == 0) {
      Epilogue::Stores::for_each([&](auto type, int store) {
        constexpr int kColumns = 128 / sizeof(typename decltype(type)::Storage);
#pragma unroll
        for (int c = 0; c < kChunkColumns; c += kColumns, slot += kSlotBytes) {
          store_box(p_.stores[store], slot, chunk.row, chunk.col + c);
        }
      });
      cute::tma_store_arrive();
    }
  }

  const abi::GemmParams& p_;
  int warp_, lane_;
  uint32_t phase_ = 0;  // of the loads' barriers at the tile's first chunk
  float low_cols_[kCols], high_cols_[kCols];
  Operands<Epilogue> x_;
};

}  // namespace epifuse::sm90
