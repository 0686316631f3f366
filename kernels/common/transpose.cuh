// Matrices of bytes with rows and columns exchanged: tiles go through shared memory, so that both
// sides are read and written by 16 bytes a lane, and by whole lines a warp.
#pragma once

#include "kernels/abi.h"
#include "kernels/common/overlap.cuh"

namespace epifuse::transposes {

constexpr int kTile = abi::kTransposeTile, kThreads = abi::kTransposeThreads;
constexpr int kBytes = 16;                // that a lane moves at once
constexpr int kVectors = kTile / kBytes;  // of a row of a tile
constexpr int kRowsAtOnce = kThreads / kVectors, kTurns = kTile / kRowsAtOnce;
static_assert(kTile / 4 * kVectors == kThreads, "a thread has 4 columns of 16 rows to write");

// The next bytes of a row, of which so many are left; zeros behind them.
__device__ __forceinline__ uint4 read(const unsigned char* from, long long left, int unit) {
  if (left >= kBytes && unit == kBytes) return *reinterpret_cast<const uint4*>(from);
  unsigned words[4] = {};
  if (left >= kBytes && unit == 4) {
#pragma unroll
    for (int w = 0; w < 4; ++w) words[w] = reinterpret_cast<const unsigned*>(from)[w];
  } else {
#pragma unroll
    for (int i = 0; i < kBytes; ++i) {
      if (i < left) words[i / 4] |= static_cast<unsigned>(from[i]) << (i % 4 * 8);
    }
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// Four columns of four rows, a row a word, become four rows of four columns.
__device__ __forceinline__ void exchange(unsigned (&words)[4]) {
  const unsigned low_01 = __byte_perm(words[0], words[1], 0x5140),
                 high_01 = __byte_perm(words[0], words[1], 0x7362),
                 low_23 = __byte_perm(words[2], words[3], 0x5140),
                 high_23 = __byte_perm(words[2], words[3], 0x7362);
  words[0] = __byte_perm(low_01, low_23, 0x5410);
  words[1] = __byte_perm(low_01, low_23, 0x7632);
  words[2] = __byte_perm(high_01, high_23, 0x5410);
  words[3] = __byte_perm(high_01, high_23, 0x7632);
}

// Of a tile in shared memory, vector `v` of a row: what a warp writes or reads at once lies in
// different banks.
__device__ __forceinline__ int place(int row, int v) {
  return row * kVectors + (v ^ row / kBytes % kVectors);
}

struct Tile {
  const unsigned char* from;  // its first element
  unsigned char* to;
  long long rows, cols;  // from there to the matrix's ends

  // Tiles side by side along rows of `to` have numbers that follow each other.
  __device__ __forceinline__ Tile(const abi::TransposeParams& p, int number) {
    const int column = number / p.row_tiles;
    const long long row = static_cast<long long>(number % p.row_tiles) * kTile;
    const long long col = static_cast<long long>(column % p.col_tiles) * kTile;
    long long from_offset = row * p.from_stride + col, to_offset = col * p.to_stride + row;
    if (int index = column / p.col_tiles; index > 0) {
#pragma unroll
      for (int d = abi::kMaxRank - 3; d >= 0; --d) {
        from_offset += index % p.batch[d] * p.from_batch[d];
        to_offset += index % p.batch[d] * p.to_batch[d];
        index /= p.batch[d];
      }
    }
    from = static_cast<const unsigned char*>(p.from) + from_offset;
    to = static_cast<unsigned char*>(p.to) + to_offset;
    rows = p.rows - row;
    cols = p.cols - col;
  }
};

__device__ __forceinline__ void load(const abi::TransposeParams& p, const Tile& at,
                                     uint4 (&vectors)[kTurns]) {
  const int thread = static_cast<int>(threadIdx.x), col = thread % kVectors * kBytes;
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    const int row = thread / kVectors + turn * kRowsAtOnce;
    vectors[turn] = make_uint4(0, 0, 0, 0);
    if (row < at.rows && col < at.cols) {
      vectors[turn] = read(at.from + row * p.from_stride + col, at.cols - col, p.unit);
    }
  }
}

// A thread has 16 rows of 4 columns.
__device__ __forceinline__ void store(const abi::TransposeParams& p, const Tile& at,
                                      const uint4* tile) {
  const int thread = static_cast<int>(threadIdx.x);
  const int group = thread % kVectors, word = thread / kVectors;
  const auto* const words = reinterpret_cast<const unsigned*>(tile);
  unsigned out[4][4];  // of each column 16 bytes along rows
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    unsigned four[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      four[j] = words[4 * place(group * kBytes + 4 * i + j, word / 4) + word % 4];
    }
    exchange(four);
#pragma unroll
    for (int c = 0; c < 4; ++c) out[c][i] = four[c];
  }
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    const long long col = 4 * word + c;
    if (col >= at.cols || group * kBytes >= at.rows) continue;
    *reinterpret_cast<uint4*>(at.to + col * p.to_stride + group * kBytes) =
        make_uint4(out[c][0], out[c][1], out[c][2], out[c][3]);
  }
}

// A block has the tile of its number.
__device__ __forceinline__ void bytes(const abi::TransposeParams& p) {
  __shared__ uint4 tile[kTile * kVectors];
  const int thread = static_cast<int>(threadIdx.x);
  const Tile at(p, static_cast<int>(blockIdx.x));
  await_previous_kernel();
  uint4 vectors[kTurns];
  load(p, at, vectors);
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    tile[place(thread / kVectors + turn * kRowsAtOnce, thread % kVectors)] = vectors[turn];
  }
  __syncthreads();
  store(p, at, tile);
}

}  // namespace epifuse::transposes
