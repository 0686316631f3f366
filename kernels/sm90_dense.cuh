// Hopper GEMM with a generated epilogue: D[m, n] = epilogue(sum over k of A[m, k] * B[n, k]), bf16
// operands, both K-major, f32 accumulation.
//
// Persistent and warp-specialised: warpgroup 0 feeds a ring of shared-memory stages by TMA,
// warpgroups 1 and 2 multiply. Ping-pong: each consumer owns whole tiles and they take turns on the
// tensor cores, so that the epilogue of one runs under the mainloop of the other.
//
// Config (generated): kTileM, kTileN, kStages, kLoadDepth, kStoreDepth, kSharedBytes, Wgmma (the
// CuTe atom of 64 x kTileN x 16). Epilogue (generated): see kernels/operands.cuh.
#pragma once

#include "kernels/sm90_epilogue.cuh"

namespace epifuse::sm90 {

constexpr int kTileK = 64;     // 128 bytes of bf16: one swizzled row
constexpr int kConsumers = 2;  // warpgroups
constexpr int kWarpsPerGroup = 4;
constexpr int kRegistersToFeed = 24;
constexpr int kRegistersToMultiply = 240;
constexpr int kTurnBarrier = 2;  // named barriers 2 and 3: whose turn it is on the tensor cores

// Walks the tiles a consumer or the producer owns: static round robin, p.raster tiles along m side
// by side so that they share columns of B in L2.
template <class Config>
struct TileWalk {
  int m = 0, n = 0;  // first row and column of the current tile

  __device__ __forceinline__ bool go(const abi::GemmParams& p, int tile) {
    const int tiles_m = (p.m + Config::kTileM - 1) / Config::kTileM;
    const int tiles_n = (p.n + Config::kTileN - 1) / Config::kTileN;
    if (tile >= tiles_m * tiles_n) return false;
    const int per_band = p.raster * tiles_n;
    const int band = fast_divide(tile, static_cast<float>(per_band));
    const int height = min(tiles_m - band * p.raster, p.raster);
    const int in_band = tile - band * per_band;
    const int column = fast_divide(in_band, static_cast<float>(height));
    m = (band * p.raster + in_band - column * height) * Config::kTileM;
    n = column * Config::kTileN;
    return true;
  }
};

// Position in the ring of stages.
template <int kStages>
struct RingPosition {
  int stage = 0;
  uint32_t phase = 0;
  __device__ __forceinline__ void next() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
  __device__ __forceinline__ void skip(int count) {
    stage += count;
    phase ^= static_cast<uint32_t>(stage / kStages) & 1;
    stage %= kStages;
  }
};

// Shared memory of one CTA, in this order: stages of A, stages of B, staging of stores and loads
// (kStoresAt, kLoadsAt), row vectors, barriers.
template <class Config_, class Epilogue>
struct SharedLayout : Config_ {
  using Config = Config_;
  static constexpr int kWarps = kConsumers * kWarpsPerGroup;
  static constexpr int kABytes = Config::kTileM * 128;
  static constexpr int kBBytes = Config::kTileN * 128;
  static constexpr int kLoadSlots = slots<typename Epilogue::Tiles>();
  static constexpr int kA = 0;
  static constexpr int kB = kA + Config::kStages * kABytes;
  static constexpr int kStoresAt = kB + Config::kStages * kBBytes;
  static constexpr int kLoadsAt =
      kStoresAt + kWarps * Config::kStoreDepth * kSlotBytes * slots<typename Epilogue::Stores>();
  static constexpr int kRowsAt = kLoadsAt + kWarps * Config::kLoadDepth * kSlotBytes * kLoadSlots;
  static constexpr int kRowBytes = Epilogue::Rows::kCount * Config::kTileN * 4;  // a consumer
  static constexpr int kFullAt = kRowsAt + kConsumers * kRowBytes;
  static constexpr int kEmptyAt = kFullAt + Config::kStages * 8;
  static constexpr int kArrivedAt = kEmptyAt + Config::kStages * 8;
  static constexpr int kNumArrived = kLoadSlots > 0 ? kWarps* Config::kLoadDepth : 0;
  static constexpr int kBytes = kArrivedAt + kNumArrived * 8;
  static_assert(kBytes == Config::kSharedBytes, "the host's sum must match");

  static __device__ __forceinline__ FullBarrier& full(int stage) {
    return reinterpret_cast<FullBarrier*>(shared_memory() + kFullAt)[stage];
  }
  static __device__ __forceinline__ EmptyBarrier& empty(int stage) {
    return reinterpret_cast<EmptyBarrier*>(shared_memory() + kEmptyAt)[stage];
  }
};

template <class Config, class Epilogue>
class Consumer {
  using Layout = SharedLayout<Config, Epilogue>;
  using Warp = WarpEpilogue<Layout, Epilogue>;
  static constexpr int kBlocks = Config::kTileM / 64;             // m64 blocks of a tile
  static constexpr int kChunks = Config::kTileN / kChunkColumns;  // of a block
  static constexpr int kAccumulators = Config::kTileN / 2;        // of a block, a thread
  static constexpr int kRowFetches = (Config::kTileN + 127) / 128;

 public:
  __device__ __forceinline__ Consumer(const abi::GemmParams& p, int group)
      : p_(p),
        group_(group),
        thread_(threadIdx.x & 127),
        warp_(thread_ >> 5),
        lane_(thread_ & 31),
        epilogue_(p, group * kWarpsPerGroup + warp_, lane_) {}

  __device__ __forceinline__ void run() {
    const int steps = (p_.k + kTileK - 1) / kTileK;
    if (group_ == 1) {
      ring_.skip(steps);
      NamedBarrier::arrive(256, kTurnBarrier);
    }
    int tile = blockIdx.x + group_ * gridDim.x;
    bool more = tiles_.go(p_, tile);
    if (more) {
      fetch();
#pragma unroll
      for (int i = 0; i < Config::kLoadDepth; ++i)
        epilogue_.request(i, chunk(i, tiles_.m, tiles_.n));
    }
#pragma unroll 1
    while (more) {
      const int m = tiles_.m, n = tiles_.n;
      float acc[kBlocks][kAccumulators];
      NamedBarrier::sync(256, kTurnBarrier + group_);  // without it, barrier phases alias and hang
      const int last = multiply_all(acc, steps);
      NamedBarrier::arrive(256, kTurnBarrier + (group_ ^ 1));
      // While the last products drain: publish this tile's vectors, find the next tile, fetch its.
      publish();
      tile += kConsumers * gridDim.x;
      more = tiles_.go(p_, tile);
      if (more) fetch();
      cute::warpgroup_wait<0>();
      fence(acc);
      release(last);
      ring_.skip(steps);
      if constexpr (Epilogue::Rows::kCount > 0) NamedBarrier::sync(128, group_);
      write_tile(acc, m, n, more);
    }
    epilogue_.finish();
  }

 private:
  // A warp's i-th chunk of the tile at (m, n).
  __device__ __forceinline__ Chunk chunk(int i, int m, int n) const {
    return {m + (i / kChunks) * 64 + warp_ * kWarpRows, n + (i % kChunks) * kChunkColumns};
  }

  // Row and column values of the tile the walk is at, as raw bits into registers.
  __device__ __forceinline__ void fetch() {
    Epilogue::Rows::for_each([&](auto type, int i) {
#pragma unroll
      for (int f = 0; f < kRowFetches; ++f) {
        const int column = tiles_.n + f * 128 + thread_;
        raw_rows_[f][i] = column < p_.n ? fetch_bits<decltype(type)>(p_.rows[i], column) : 0u;
      }
    });
    Epilogue::Cols::for_each([&](auto type, int i) {
#pragma unroll
      for (int b = 0; b < kBlocks * 2; ++b) {
        const int row = tiles_.m + b / 2 * 64 + warp_ * kWarpRows + (lane_ >> 2) + b % 2 * 8;
        raw_cols_[b][i] = row < p_.m ? fetch_bits<decltype(type)>(p_.cols[i], row) : 0u;
      }
    });
  }

  // Row values to shared memory and column values to their place, for the tile being finished.
  __device__ __forceinline__ void publish() {
    Epilogue::Rows::for_each([&](auto type, int i) {
#pragma unroll
      for (int f = 0; f < kRowFetches; ++f) {
        const int column = f * 128 + thread_;
        if (Config::kTileN % 128 == 0 || column < Config::kTileN) {
          rows()[i * Config::kTileN + column] = decode_bits<decltype(type)>(raw_rows_[f][i]);
        }
      }
    });
#pragma unroll
    for (int b = 0; b < kBlocks * 2; ++b) {
#pragma unroll
      for (int i = 0; i < Epilogue::Cols::kCount; ++i) cols_[b][i] = raw_cols_[b][i];
    }
  }

  // The tile's mainloop; returns the stage that the last products still read.
  __device__ __forceinline__ int multiply_all(float (&acc)[kBlocks][kAccumulators], int steps) {
    int previous = -1;
#pragma unroll 1
    for (int k = 0; k < steps; ++k) {
      Layout::full(ring_.stage).wait(ring_.phase);
      fence(acc);
      cute::warpgroup_arrive();
      const uint64_t a =
          k_major_descriptor(shared_memory() + Layout::kA) + ring_.stage * (Layout::kABytes >> 4);
      const uint64_t b =
          k_major_descriptor(shared_memory() + Layout::kB) + ring_.stage * (Layout::kBBytes >> 4);
#pragma unroll
      for (int j = 0; j < kTileK / 16; ++j) {
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          multiply<typename Config::Wgmma>(a + block * (64 * 128 >> 4) + j * 2, b + j * 2,
                                           acc[block], (k | j) != 0);
        }
      }
      cute::warpgroup_commit_batch();
      fence(acc);
      cute::warpgroup_wait<1>();
      if (previous >= 0) release(previous);
      previous = ring_.stage;
      ring_.next();
    }
    return previous;
  }

  __device__ __forceinline__ void write_tile(const float (&acc)[kBlocks][kAccumulators], int m,
                                             int n, bool more) {
#pragma unroll
    for (int i = 0; i < kBlocks * kChunks; ++i) {
      if (i % kChunks == 0) epilogue_.set_cols(cols_[i / kChunks * 2], cols_[i / kChunks * 2 + 1]);
      epilogue_.run(i, acc[i / kChunks] + i % kChunks * (kChunkColumns / 2),
                    rows() + i % kChunks * kChunkColumns, chunk(i, m, n));
      const int ahead = i + Config::kLoadDepth;
      if (ahead < kBlocks * kChunks) {
        epilogue_.request(ahead, chunk(ahead, m, n));
      } else if (more) {
        const int next = ahead - kBlocks * kChunks;
        epilogue_.request(next, chunk(next, tiles_.m, tiles_.n));
      }
    }
    epilogue_.end_tile();
  }

  // This tile's row vectors in shared memory, kTileN apart.
  __device__ __forceinline__ float* rows() const {
    return reinterpret_cast<float*>(shared_memory() + Layout::kRowsAt + group_ * Layout::kRowBytes);
  }

  __device__ __forceinline__ void fence(float (&acc)[kBlocks][kAccumulators]) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < kAccumulators; ++i) cute::warpgroup_fence_operand(acc[block][i]);
    }
  }

  __device__ __forceinline__ void release(int stage) {
    if (thread_ == 0) Layout::empty(stage).arrive();
  }

  const abi::GemmParams& p_;
  int group_, thread_, warp_, lane_;
  TileWalk<Config> tiles_;
  RingPosition<Config::kStages> ring_;
  uint32_t raw_rows_[kRowFetches][Warp::kRows];
  uint32_t raw_cols_[kBlocks * 2][Warp::kCols];
  uint32_t cols_[kBlocks * 2][Warp::kCols];
  Warp epilogue_;
};

// One thread keeps the ring of stages full, tile after tile.
template <class Config, class Epilogue>
__device__ __forceinline__ void feed(const abi::GemmParams& p) {
  using Layout = SharedLayout<Config, Epilogue>;
  const int steps = (p.k + kTileK - 1) / kTileK;
  TileWalk<Config> tiles;
  RingPosition<Config::kStages> ring;
#pragma unroll 1
  for (int tile = blockIdx.x; tiles.go(p, tile); tile += gridDim.x) {
#pragma unroll 1
    for (int k = 0; k < steps; ++k) {
      Layout::empty(ring.stage).wait(ring.phase ^ 1);
      FullBarrier& barrier = Layout::full(ring.stage);
      barrier.arrive_and_expect_tx(Layout::kABytes + Layout::kBBytes);
      load_box(p.a, barrier, shared_memory() + Layout::kA + ring.stage * Layout::kABytes, tiles.m,
               k * kTileK);
      load_box(p.b, barrier, shared_memory() + Layout::kB + ring.stage * Layout::kBBytes, tiles.n,
               k * kTileK);
      ring.next();
    }
  }
}

template <class Config, class Epilogue>
__device__ __forceinline__ void dense(const abi::GemmParams& p) {
  using Layout = SharedLayout<Config, Epilogue>;
  if (threadIdx.x == 0) {
    prefetch(p.a);
    prefetch(p.b);
#pragma unroll 1
    for (int i = 0; i < Config::kStages; ++i) {
      Layout::full(i).init(1);
      Layout::empty(i).init(1);
    }
    auto* arrived = reinterpret_cast<FullBarrier*>(shared_memory() + Layout::kArrivedAt);
#pragma unroll 1
    for (int i = 0; i < Layout::kNumArrived; ++i) arrived[i].init(1);
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();
  const int group = __shfl_sync(0xffffffffu, threadIdx.x >> 7, 0);
  if (group == 0) {
    cutlass::arch::warpgroup_reg_dealloc<kRegistersToFeed>();
    if (threadIdx.x == 0) feed<Config, Epilogue>(p);
  } else {
    cutlass::arch::warpgroup_reg_alloc<kRegistersToMultiply>();
    Consumer<Config, Epilogue>(p, group - 1).run();
  }
}

}  // namespace epifuse::sm90
