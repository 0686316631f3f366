// How a step of K of an operand comes from global to shared memory: a thread copies the same unit
// of every few lines.
#pragma once

#include "kernels/common/batch.cuh"
#include "kernels/common/integers.cuh"
#include "kernels/sm80/stage.cuh"

namespace epifuse::sm80 {

// Where the rows of a tile are in memory, and how many there are from the first one on. Of a
// thread, that copies a unit of every kLines-th row, those of a base are kSpacing rows of the
// operand apart: that of a turn is the places(turn)-th behind it. These have one base, ..
struct EvenRows {
  static constexpr bool kIsEven = true;
  template <int kLines>
  static constexpr int kBases = 1;
  template <int kLines>
  static constexpr int kSpacing = kLines;
  static constexpr int kBaseRows = 0;  // of the tile, between bases
  const unsigned char* data;
  long long row_bytes;
  int first, end;

  template <int kLines>
  static constexpr int base_of(int) {
    return 0;
  }
  template <int kLines>
  static constexpr int places(int turn) {
    return turn;
  }
  static __device__ __forceinline__ int column(int row) { return row; }
  __device__ __forceinline__ const unsigned char* address(int row) const {
    return data + (first + row) * row_bytes;
  }
  __device__ __forceinline__ int left() const { return end - first; }
};
// .. these are looked up, ..
struct GatheredRows {
  static constexpr bool kIsEven = false;
  const unsigned char* data;
  long long row_bytes;
  int first, end;
  const abi::Integers& index;

  static __device__ __forceinline__ int column(int row) { return row; }
  __device__ __forceinline__ const unsigned char* address(int row) const {
    const int named = min(first + row, end - 1);  // rows behind the end are not written
    return data + row_to_read(index, named) * row_bytes;
  }
  __device__ __forceinline__ int left() const { return end - first; }
};
// .. and these are columns of a gated product's two operands: each warp has as many of both, first
// those of one.
template <int kWarpN>
struct GateRows {
  static constexpr bool kIsEven = true;
  static constexpr int kHalf = kWarpN / 2, kBaseRows = kHalf;
  template <int kLines>
  static constexpr bool kIsByTurns = kLines <= kHalf;  // else a line always has the same operand
  template <int kLines>
  static constexpr int kBases = kIsByTurns<kLines> ? 2 : 1;
  template <int kLines>
  static constexpr int kSpacing = kIsByTurns<kLines> ? kLines : kLines / 2;
  const unsigned char* data;
  const unsigned char* second;
  long long row_bytes;
  int first, end;

  template <int kLines>
  static constexpr int base_of(int turn) {
    return kIsByTurns<kLines> && turn * kLines % kWarpN >= kHalf ? 1 : 0;
  }
  template <int kLines>
  static constexpr int places(int turn) {
    static_assert(kHalf % kLines == 0 || kLines % kWarpN == 0);
    if (!kIsByTurns<kLines>) return turn;
    return (turn * kLines / kWarpN * kHalf + turn * kLines % kHalf) / kLines;
  }
  static __device__ __forceinline__ int column(int row) {
    return row / kWarpN * kHalf + row % kHalf;
  }
  __device__ __forceinline__ const unsigned char* address(int row) const {
    const unsigned char* operand = row % kWarpN < kHalf ? data : second;
    return operand + (first + column(row)) * row_bytes;
  }
  __device__ __forceinline__ int left() const { return end - first; }
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

// Addresses that a thread keeps, which copies such a line in each of its turns.
template <class Stage, class Rows, int kLines, int kTurns>
constexpr int addresses() {
  if constexpr (!Stage::kIsKMajor) {
    return 1;
  } else if constexpr (Rows::kIsEven) {
    return Rows::template kBases<kLines>;
  } else {
    return kTurns;
  }
}

// A lean one takes fewer registers: its turns are a loop.
template <class Stage, class Rows, int kThreads, int kAlignment, bool kIsLean>
class OperandCopy {
  static constexpr int kLinesOfTurn = kThreads / Stage::kUnitsOfLine;
  // Lines of rows that are anywhere have addresses of their own.
  static constexpr bool kIsScattered = Stage::kIsKMajor && !Rows::kIsEven;
  static_assert(kThreads % Stage::kUnitsOfLine == 0 && Stage::kUnits % kThreads == 0);

 public:
  static constexpr int kTurns = Stage::kUnits / kThreads;
  static constexpr int kBases = addresses<Stage, Rows, kLinesOfTurn, kTurns>();

  // Of K: how far apart its elements are in lines along M or N, and how many there are.
  __device__ __forceinline__ OperandCopy(const Rows& rows, long long k_bytes, int k, int thread)
      : line_(thread / Stage::kUnitsOfLine), unit_(thread % Stage::kUnitsOfLine), k_(k) {
    if constexpr (kIsScattered) {
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn) {
        const int row = line_ + turn * kLinesOfTurn;
        from_[turn] = rows.address(row) + unit_ * 16;
        if (row < rows.left()) exists_ |= 1u << turn;
      }
      step_bytes_ = Stage::kStepBytes;
    } else if constexpr (Stage::kIsKMajor) {
#pragma unroll
      for (int base = 0; base < kBases; ++base) {
        from_[base] = rows.address(line_ + base * Rows::kBaseRows) + unit_ * 16;
      }
      left_ = rows.left() - Rows::column(line_);
      turn_bytes_ = rows.row_bytes * Rows::template kSpacing<kLinesOfTurn>;
      step_bytes_ = Stage::kStepBytes;
    } else {
      const int row = unit_ * Stage::kUnitElements;
      from_[0] = rows.address(row) + line_ * k_bytes;
      left_ = rows.left() - Rows::column(row);
      turn_bytes_ = k_bytes * kLinesOfTurn;
      step_bytes_ = k_bytes * Stage::kStepK;
    }
  }

  // The turns from `first` to `end` of the step-th step, to the stage at that address.
  __device__ __forceinline__ void copy(uint32_t stage, int step, int first, int end) const {
    if constexpr (kRolls) {
#pragma unroll 1
      for (int turn = first; turn < end; ++turn) copy_line(stage, step, turn);
    } else {
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn) {
        if (turn >= first && turn < end) copy_line(stage, step, turn);
      }
    }
  }

 private:
  static constexpr bool kRolls = (kIsLean || kAlignment < 4) && !kIsScattered;

  __device__ __forceinline__ void copy_line(uint32_t stage, int step, int turn) const {
    const int k_left = k_ - step * Stage::kStepK;
    const int elements = Stage::kIsKMajor ? k_left - unit_ * Stage::kUnitElements : left_;
    const int bytes = max(min(elements, Stage::kUnitElements), 0) * Stage::kElementBytes;
    const int line = line_ + turn * kLinesOfTurn;
    copy_unit<typename Stage::Element, kAlignment>(stage + Stage::place(line, unit_),
                                                   address(turn) + step * step_bytes_,
                                                   exists(turn, k_left) ? bytes : 0);
  }

  // In the first step.
  __device__ __forceinline__ const unsigned char* address(int turn) const {
    if constexpr (kIsScattered) {
      return from_[turn];
    } else if constexpr (Stage::kIsKMajor) {
      const bool is_second = Rows::template base_of<kLinesOfTurn>(turn) > 0;
      return (is_second ? from_[kBases - 1] : from_[0]) +
             Rows::template places<kLinesOfTurn>(turn) * turn_bytes_;
    } else {
      return from_[0] + turn * turn_bytes_;
    }
  }
  __device__ __forceinline__ bool exists(int turn, int k_left) const {
    if constexpr (kIsScattered) {
      return exists_ >> turn & 1;
    } else if constexpr (Stage::kIsKMajor) {
      constexpr int kSpacing = Rows::template kSpacing<kLinesOfTurn>;
      return Rows::template places<kLinesOfTurn>(turn) * kSpacing < left_;
    } else {
      return line_ + turn * kLinesOfTurn < k_left;
    }
  }

  int line_, unit_, k_;
  int left_ = 0;         // rows from the thread's first one on, or elements from its unit on
  unsigned exists_ = 0;  // bit i: whether the line of the i-th turn is there
  long long turn_bytes_ = 0, step_bytes_;
  const unsigned char* from_[kBases];
};

}  // namespace epifuse::sm80
