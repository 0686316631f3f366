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
  static __device__ constexpr int base_of(int) {
    return 0;
  }
  template <int kLines>
  static __device__ constexpr int places(int turn) {
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
  static __device__ constexpr int base_of(int turn) {
    return kIsByTurns<kLines> && turn * kLines % kWarpN >= kHalf ? 1 : 0;
  }
  template <int kLines>
  static __device__ constexpr int places(int turn) {
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

// One unit, of which the first `bytes` are there, element by element.
template <class Element>
__device__ __forceinline__ void copy_elements(uint32_t shared, const unsigned char* global,
                                              int bytes) {
  using Storage = typename Element::Storage;
  constexpr int kSize = sizeof(Storage), kBits = 8 * kSize;
  uint32_t words[4] = {};
#pragma unroll 1
  for (int at = 0; at < 16; at += kSize) {
    uint32_t element = 0;
    if (at < bytes) memcpy(&element, global + at, kSize);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t next = i < 3 ? words[i + 1] : element;
      words[i] = kBits < 32 ? __funnelshift_r(words[i], next, kBits) : next;
    }
  }
  store_unit(shared, words);
}

// One unit, of which the first `bytes` are there, 0 .. 16. Global addresses are multiples of
// kAlignment bytes.
template <class Element, int kAlignment>
__device__ __forceinline__ void copy_unit(uint32_t shared, const unsigned char* global, int bytes) {
  if constexpr (kAlignment >= 4) {
    constexpr int kBytes = kAlignment < 16 ? kAlignment : 16;
    // Of a cp.async that copies less than it could, memcheck would count all as read.
    if (bytes % kBytes != 0) {
      copy_elements<Element>(shared, global, bytes);
      return;
    }
#pragma unroll
    for (int i = 0; i < 16; i += kBytes) {
      copy_async<kBytes>(shared + i, global + i, i < bytes ? kBytes : 0);
    }
  } else {
    constexpr bool kMayEndWithin = sizeof(typename Element::Storage) < kAlignment;
    uint32_t words[4] = {};
#pragma unroll
    for (int i = 0; i < 16; i += kAlignment) {
      if (i >= bytes) continue;
      uint32_t piece = global[i];
      if (kAlignment == 2 && (!kMayEndWithin || i + 1 < bytes)) {
        piece = *reinterpret_cast<const unsigned short*>(global + i);
      }
      words[i / 4] |= piece << (i % 4 * 8);
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

// The copies of one operand, step by step. A lean one takes fewer registers: its turns are a loop.
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
      : line_(thread / Stage::kUnitsOfLine),
        unit_(thread % Stage::kUnitsOfLine),
        place_(Stage::place(line_, unit_)) {
    const int element = unit_ * Stage::kUnitElements;
    if constexpr (kIsScattered) {
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn) {
        const int row = line_ + turn * kLinesOfTurn;
        from_[turn] = rows.address(row) + unit_ * 16;
        if (row < rows.left()) lines_ |= 1 << turn;
      }
      elements_ = k - element;
      step_bytes_ = Stage::kStepBytes;
    } else if constexpr (Stage::kIsKMajor) {
#pragma unroll
      for (int base = 0; base < kBases; ++base) {
        from_[base] = rows.address(line_ + base * Rows::kBaseRows) + unit_ * 16;
      }
      lines_ = rows.left() - Rows::column(line_);
      elements_ = k - element;
      turn_bytes_ = rows.row_bytes * Rows::template kSpacing<kLinesOfTurn>;
      step_bytes_ = Stage::kStepBytes;
    } else {
      from_[0] = rows.address(element) + line_ * k_bytes;
      lines_ = k - line_;
      elements_ = rows.left() - Rows::column(element);
      turn_bytes_ = k_bytes * kLinesOfTurn;
      step_bytes_ = k_bytes * Stage::kStepK;
    }
    if (elements_ <= 0) lines_ = 0;
    const int length = Stage::kIsKMajor ? k : rows.left();  // of a line
    const bool is_ragged = kHasRagged && length % Stage::kUnitElements != 0;
    if constexpr (Stage::kIsKMajor) {
      steps_to_ragged_ = is_ragged ? k / Stage::kStepK : -1;
    } else {
      steps_to_ragged_ = is_ragged && length < Stage::kRows ? 0 : -1;
    }
  }

  // Whether units of this step are there in part, which only the end of K, or of a line, has. Then
  // copy_ragged() copies the step, and copy() does nothing. The same for all threads.
  __device__ __forceinline__ bool is_ragged() const { return steps_to_ragged_ == 0; }

  // The turns from `first` to `end` of this step, to the stage at that address; behind the last
  // step they are zeros.
  __device__ __forceinline__ void copy(uint32_t stage, int first, int end) const {
    if (is_ragged()) return;
    if constexpr (kRolls) {
#pragma unroll 1
      for (int turn = first; turn < end; ++turn) copy_line(stage, turn);
    } else {
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn) {
        if (turn >= first && turn < end) copy_line(stage, turn);
      }
    }
  }

  __device__ __forceinline__ void copy_ragged(uint32_t stage) const {
    if (!kHasRagged || !is_ragged()) return;
#pragma unroll kUnrolled
    for (int turn = 0; turn < kTurns; ++turn) copy_counted(stage, turn);
  }

  // On to the next step, or over several.
  __device__ __forceinline__ void advance(int steps = 1) {
#pragma unroll
    for (int base = 0; base < kBases; ++base) from_[base] += steps * step_bytes_;
    if constexpr (Stage::kIsKMajor) {
      elements_ -= steps * Stage::kStepK;
      if (elements_ <= 0) lines_ = 0;
      if (kHasRagged) steps_to_ragged_ -= steps;
    } else {
      lines_ -= steps * Stage::kStepK;
    }
  }

 private:
  static constexpr bool kHasRagged = kAlignment >= 4;  // else ordinary loads, which are counted
  static constexpr bool kRolls = (kIsLean || kAlignment < 4) && !kIsScattered;
  static constexpr int kUnrolled = kIsScattered ? kTurns : 1;

  __device__ __forceinline__ uint32_t to(uint32_t stage, int turn) const {
    if constexpr (kLinesOfTurn % Stage::kAlikeLines == 0) {
      return stage + place_ + turn * (Stage::place(kLinesOfTurn, 0) - Stage::place(0, 0));
    } else {
      return stage + Stage::place(line_ + turn * kLinesOfTurn, unit_);
    }
  }

  __device__ __forceinline__ void copy_line(uint32_t stage, int turn) const {
    if constexpr (!kHasRagged) {
      copy_counted(stage, turn);
    } else {
      constexpr int kBytes = kAlignment < 16 ? kAlignment : 16;
#pragma unroll
      for (int i = 0; i < 16; i += kBytes) {
        copy_async<kBytes>(to(stage, turn) + i, address(turn) + i, exists(turn) ? kBytes : 0);
      }
    }
  }
  // Of the unit the bytes that are there.
  __device__ __forceinline__ void copy_counted(uint32_t stage, int turn) const {
    const int bytes = max(min(elements_, Stage::kUnitElements), 0) * Stage::kElementBytes;
    copy_unit<typename Stage::Element, kAlignment>(to(stage, turn), address(turn),
                                                   exists(turn) ? bytes : 0);
  }

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
  __device__ __forceinline__ bool exists(int turn) const {
    if constexpr (kIsScattered) {
      return lines_ >> turn & 1;
    } else if constexpr (Stage::kIsKMajor) {
      constexpr int kSpacing = Rows::template kSpacing<kLinesOfTurn>;
      return Rows::template places<kLinesOfTurn>(turn) * kSpacing < lines_;
    } else {
      return turn * kLinesOfTurn < lines_;
    }
  }

  int line_, unit_;
  uint32_t place_;  // of the first turn, in a stage
  // Elements of a line from the thread's unit on, and lines from its first one on, of scattered
  // ones bit i for that of the i-th turn; none without elements. Those of K are what is left of it.
  int elements_ = 0, lines_ = 0;
  int steps_to_ragged_ = -1;  // negative: behind it, or there is none
  long long turn_bytes_ = 0, step_bytes_ = 0;
  const unsigned char* from_[kBases];  // in this step
};

}  // namespace epifuse::sm80
