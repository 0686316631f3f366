// Puts the rows of an operand in order that TMA has loaded class by class (abi::ShiftedOperand).
//
// A block of shared memory is 64 rows of 128 bytes, 128-byte swizzle: piece c of 16 bytes of the
// row at place r lies at r * 128 + 16 (c ^ r % 8). TMA puts row 8 i + j at place 8 j + i, so that
// places 8 i + j and 8 j + i have to be exchanged. Nothing of a block has to leave it.
#pragma once

#include "kernels/abi.h"

namespace epifuse {

constexpr int kClassBytes = 8 * 128;                     // of the rows of a class in a block
constexpr int kClassBlockBytes = 8 * kClassBytes;        // of a block
constexpr int kRowPairs = abi::kRowClasses * 7 / 2;      // that a block's exchange has
constexpr int kRowPairsOfWarp = 4;                       // side by side, 8 lanes a row
constexpr int kRowRounds = kRowPairs / kRowPairsOfWarp;  // of one warp for a block

// Where a lane's two pieces lie in every block.
struct PiecePlaces {
  int x, y;
};

// Of round 0 .. kRowRounds - 1: the pairs i < j or i > j of rows whose j is 1 to 3 after i in a
// ring of 8, then those 4 apart.
__device__ __forceinline__ PiecePlaces piece_places(int round, int lane) {
  const int pair = round * kRowPairsOfWarp + (lane >> 3), piece = lane & 7;
  const int i = pair & 7, j = (i + (pair >> 3) + 1) & 7;
  return {(8 * j + i) * 128 + piece * 16, (8 * i + j) * 128 + (piece ^ i ^ j) * 16};
}

// Two blocks at a time, so that loads overlap.
template <int kBlocks>
__device__ __forceinline__ void exchange(unsigned char* blocks, PiecePlaces places) {
#pragma unroll
  for (int first = 0; first < kBlocks; first += 2) {
    uint4 x[2], y[2];
#pragma unroll
    for (int b = first; b < first + 2 && b < kBlocks; ++b) {
      x[b - first] = *reinterpret_cast<const uint4*>(blocks + b * kClassBlockBytes + places.x);
      y[b - first] = *reinterpret_cast<const uint4*>(blocks + b * kClassBlockBytes + places.y);
    }
#pragma unroll
    for (int b = first; b < first + 2 && b < kBlocks; ++b) {
      *reinterpret_cast<uint4*>(blocks + b * kClassBlockBytes + places.x) = y[b - first];
      *reinterpret_cast<uint4*>(blocks + b * kClassBlockBytes + places.y) = x[b - first];
    }
  }
}

}  // namespace epifuse
