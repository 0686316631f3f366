// Puts the rows of an operand in order that TMA has loaded class by class (abi::MisalignedOperand).
//
// A box starts at a 16-byte boundary only, up to 14 bytes before its rows do, and is 16 bytes wider
// than the 128 that a stage takes: a row comes as 9 pieces of 16 bytes and leaves as 8. In a stage,
// blocks of 64 rows of 128 bytes with the 128-byte swizzle, piece c of row r lies at
// r * 128 + 16 (c ^ r % 8); row 8 i + j of a block is its i-th row of class j.
#pragma once

#include "kernels/abi.h"

namespace epifuse {

using abi::kStagedRowBytes;

// Where the rows of a tile lie that TMA has loaded. K-major: a class is one box, of a row in 8 of
// the tile's. Else: a box for every 64 elements of M or N, of a row in 8 of the stage's rows of K.
template <bool kIsKMajor, int kTile>
struct StagedRows {
  static constexpr int kBlocks = kTile / 64;
  static constexpr int kBoxRows = kIsKMajor ? kTile / abi::kRowClasses : 64 / abi::kRowClasses;
  static constexpr int kBoxes = kIsKMajor ? 1 : kBlocks;  // of a class
  static constexpr int kClassBytes = kBoxRows * kStagedRowBytes;
  static constexpr int kBlockBytes = (kIsKMajor ? 1 : abi::kRowClasses) * 8 * kStagedRowBytes;
  static constexpr int kBytes = kTile * kStagedRowBytes;
  static_assert(kTile % 64 == 0 && kClassBytes % 128 == 0 && kBlockBytes % 128 == 0);
};

// A lane moves half a row at a time, a warp a quarter of a block.
constexpr int kRoundsOfBlock = 4;
struct HalfRow {
  int i, j, half;  // of row 8 i + j
};

// The 8 lanes that access shared memory at once have all i % 4 and all j % 4: neither the pieces
// that they read, at banks (i + c) % 8, nor those that they write, at c ^ j, collide.
__device__ __forceinline__ HalfRow half_row(int round, int lane) {
  const int i = (lane >> 1 & 3) + (round & 1) * 4;
  return {i, (i + (lane >> 3) + (round >> 1) * 4) & 7, lane & 1};
}

// From the staged row to its place: drops the first 2 * shift bytes.
__device__ __forceinline__ void move_half_row(const unsigned char* staged_row, unsigned char* row,
                                              int j, int half, unsigned shift) {
  unsigned x[20];
#pragma unroll
  for (int c = 0; c < 5; ++c) {
    const uint4 piece = reinterpret_cast<const uint4*>(staged_row)[half * 4 + c];
    x[c * 4] = piece.x;
    x[c * 4 + 1] = piece.y;
    x[c * 4 + 2] = piece.z;
    x[c * 4 + 3] = piece.w;
  }
#pragma unroll
  for (int w = 0; w < 18; ++w) x[w] = shift & 4 ? x[w + 2] : x[w];
#pragma unroll
  for (int w = 0; w < 17; ++w) x[w] = shift & 2 ? x[w + 1] : x[w];
  const unsigned bits = (shift & 1) * 16;
#pragma unroll
  for (int w = 0; w < 16; ++w) x[w] = __funnelshift_r(x[w], x[w + 1], bits);
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    reinterpret_cast<uint4*>(row)[(half * 4 + c) ^ j] =
        make_uint4(x[c * 4], x[c * 4 + 1], x[c * 4 + 2], x[c * 4 + 3]);
  }
}

// A lane's share of round 0 .. kBlocks * kRoundsOfBlock - 1 of a tile.
template <class Rows>
__device__ __forceinline__ void move_round(const unsigned char* staged, unsigned char* stage,
                                           unsigned shifts, int round, int lane) {
  const int block = round / kRoundsOfBlock;
  const HalfRow at = half_row(round % kRoundsOfBlock, lane);
  move_half_row(
      staged + block * Rows::kBlockBytes + at.j * Rows::kClassBytes + at.i * kStagedRowBytes,
      stage + block * 64 * 128 + (8 * at.i + at.j) * 128, at.j, at.half, shifts >> 4 * at.j & 7);
}

}  // namespace epifuse
