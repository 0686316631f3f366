// How a step of K of an operand comes from global to shared memory: a thread copies the same unit
// of every few lines.
#pragma once

#include "kernels/common/batch.cuh"
#include "kernels/common/integers.cuh"
#include "kernels/sm80/stage.cuh"

namespace epifuse::sm80 {

// Where the rows of a tile are in memory, and how many there are from each on. These are evenly
// apart, ..
struct EvenRows {
  static constexpr bool kIsEven = true;
  const unsigned char* data;
  long long row_bytes;
  int first, end;

  __device__ __forceinline__ const unsigned char* address(int row) const {
    return data + (first + row) * row_bytes;
  }
  __device__ __forceinline__ int left(int row) const { return end - first - row; }
};
// .. these are looked up, ..
struct GatheredRows {
  static constexpr bool kIsEven = false;
  const unsigned char* data;
  long long row_bytes;
  int first, end;
  const abi::Integers& index;

  __device__ __forceinline__ const unsigned char* address(int row) const {
    const int named = min(first + row, end - 1);  // rows behind the end are not written
    return data + row_to_read(index, named) * row_bytes;
  }
  __device__ __forceinline__ int left(int row) const { return end - first - row; }
};
// .. and these are columns of a gated product's two operands: each warp has as many of both.
template <int kWarpN>
struct GateRows {
  static constexpr bool kIsEven = false;
  const unsigned char* data;
  const unsigned char* second;
  long long row_bytes;
  int first, end;

  static __device__ __forceinline__ int column(int row) {
    return row / kWarpN * (kWarpN / 2) + row % (kWarpN / 2);
  }
  __device__ __forceinline__ const unsigned char* address(int row) const {
    const unsigned char* operand = row % kWarpN < kWarpN / 2 ? data : second;
    return operand + (first + column(row)) * row_bytes;
  }
  __device__ __forceinline__ int left(int row) const { return end - first - column(row); }
};

// One unit, of which the first `bytes` are there, 0 .. 16. Global addresses are multiples of
// kAlignment bytes.
template <class Element, int kAlignment>
__device__ __forceinline__ void copy_unit(uint32_t shared, const unsigned char* global, int bytes) {
  if constexpr (kAlignment >= 4) {
    constexpr int kBytes = kAlignment < 16 ? kAlignment : 16;
#pragma unroll
    for (int i = 0; i < 16; i += kBytes) {
      copy_async<kBytes>(shared + i, global + i, max(min(bytes - i, kBytes), 0));
    }
  } else {
    uint32_t words[4] = {};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i * 2 >= bytes) continue;
      const uint32_t half = *reinterpret_cast<const unsigned short*>(global + i * 2);
      words[i / 2] |= half << (i % 2 * 16);
    }
    store_unit(shared, words);
  }
}

template <class Stage, class Rows, int kThreads, int kAlignment>
class OperandCopy {
  static constexpr int kLinesOfTurn = kThreads / Stage::kUnitsOfLine;
  // Lines of rows that are anywhere have addresses of their own.
  static constexpr bool kIsScattered = Stage::kIsKMajor && !Rows::kIsEven;
  static_assert(kThreads % Stage::kUnitsOfLine == 0 && Stage::kUnits % kThreads == 0);

 public:
  static constexpr int kTurns = Stage::kUnits / kThreads;

  // Of K: how far apart its elements are in lines along M or N, and how many there are.
  __device__ __forceinline__ OperandCopy(const Rows& rows, long long k_bytes, int k, int thread)
      : line_(thread / Stage::kUnitsOfLine), unit_(thread % Stage::kUnitsOfLine), k_(k) {
    if constexpr (kIsScattered) {
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn) {
        const int row = line_ + turn * kLinesOfTurn;
        from_[turn] = rows.address(row) + unit_ * 16;
        if (rows.left(row) > 0) exists_ |= 1u << turn;
      }
      step_bytes_ = Stage::kStepBytes;
    } else if constexpr (Stage::kIsKMajor) {
      from_[0] = rows.address(line_) + unit_ * 16;
      left_ = rows.left(0);
      turn_bytes_ = rows.row_bytes * kLinesOfTurn;
      step_bytes_ = Stage::kStepBytes;
    } else {
      const int row = unit_ * Stage::kUnitElements;
      from_[0] = rows.address(row) + line_ * k_bytes;
      left_ = rows.left(row);
      turn_bytes_ = k_bytes * kLinesOfTurn;
      step_bytes_ = k_bytes * Stage::kStepK;
    }
  }

  // The turns from `first` to `end` of the step-th step, to the stage at that address.
  __device__ __forceinline__ void copy(uint32_t stage, int step, int first, int end) const {
    const int k_left = k_ - step * Stage::kStepK;
    const int elements = Stage::kIsKMajor ? k_left - unit_ * Stage::kUnitElements : left_;
    const int lines = Stage::kIsKMajor ? left_ : k_left;
    const int bytes = max(min(elements, Stage::kUnitElements), 0) * Stage::kElementBytes;
    const long long offset = step * step_bytes_;
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      if (turn < first || turn >= end) continue;
      const int line = line_ + turn * kLinesOfTurn;
      const bool exists = kIsScattered ? exists_ >> turn & 1 : line < lines;
      const unsigned char* from =
          kIsScattered ? from_[turn] + offset : from_[0] + offset + turn * turn_bytes_;
      copy_unit<typename Stage::Element, kAlignment>(stage + Stage::place(line, unit_), from,
                                                     exists ? bytes : 0);
    }
  }

 private:
  int line_, unit_, k_;
  int left_ = 0;         // rows of lines of K, or elements of the unit and those behind it
  unsigned exists_ = 0;  // bit i: whether the line of the i-th turn is there
  long long turn_bytes_ = 0, step_bytes_;
  const unsigned char* from_[kIsScattered ? kTurns : 1];
};

}  // namespace epifuse::sm80
