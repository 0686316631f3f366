// A step of K of an operand in shared memory, and how warps read it as fragments.
//
// It has lines as memory has them: rows of M or N along K, or rows of K along M or N. A line is
// made of units of 16 bytes, which are swizzled so that 8 units that are read at once, or written
// at once, lie in all 32 banks.
#pragma once

#include "kernels/sm80/primitives.cuh"

namespace epifuse::sm80 {

// kByFours: of 16 bits along K, which lanes read four at a time, as they have them of 8 bits.
template <class Element_, bool kIsKMajor_, int kRows_, int kStepBytes_, bool kByFours_ = false>
struct Stage {
  using Element = Element_;
  static constexpr bool kIsKMajor = kIsKMajor_;
  static constexpr int kRows = kRows_;  // of M or N
  static constexpr int kStepBytes = kStepBytes_;
  static constexpr bool kByFours = kByFours_;
  static constexpr int kElementBytes = sizeof(typename Element::Storage);
  static constexpr int kUnitElements = 16 / kElementBytes;
  static constexpr int kStepK = kStepBytes / kElementBytes;
  static constexpr int kBytes = kRows * kStepBytes;
  static constexpr int kLines = kIsKMajor ? kRows : kStepK;
  static constexpr int kUnitsOfLine = (kIsKMajor ? kStepK : kRows) / kUnitElements;
  static constexpr int kUnits = kLines * kUnitsOfLine;
  // Elements of 8 bits along M or N: no instruction transposes them.
  static constexpr bool kHasBytesAcross = !kIsKMajor && kElementBytes == 1;
  // Lines along M or N are cut into blocks of 128 bytes, each of all lines; shorter ones are one.
  static constexpr int kLineBytes = kRows * kElementBytes < 128 ? 64 : 128;
  static constexpr int kBlockBytes = kStepK * kLineBytes;
  static constexpr int kAlikeLines = kHasBytesAcross ? 16 : 8;  // after so many the swizzle repeats
  static_assert(kStepBytes == 64 || kStepBytes == 128);
  static_assert(kElementBytes == 1 || kElementBytes == 2 || kElementBytes == 4);
  static_assert(!kByFours || (kIsKMajor && kElementBytes == 2 && kStepBytes == 128));
  static_assert(kIsKMajor || kRows * kElementBytes % (kHasBytesAcross ? 64 : 128) == 0);

  // The byte at which a unit of a line starts.
  static __device__ __forceinline__ uint32_t place(int line, int unit) {
    if constexpr (kHasBytesAcross) {  // lines 0, 1, 4, 5, 8, 9, 12 and 13 are read at once
      if constexpr (kLineBytes == 128) {
        const int moved = (line & 1) | (line >> 1 & 6);
        return (unit >> 3) * kBlockBytes + line * 128 + (((unit & 7) ^ moved) << 4);
      } else {  // two lines side by side
        return (line >> 1) * 128 + (((line & 1) * 4 + (unit ^ (line >> 2 & 3))) << 4);
      }
    } else if constexpr (!kIsKMajor) {
      // Words of 4 lines are read at once of f32, units of 8 lines of narrower elements.
      const int moved = kElementBytes == 4 ? (line & 3) << 1 : line & 7;
      return (unit >> 3) * kBlockBytes + line * 128 + (((unit & 7) ^ moved) << 4);
    } else if constexpr (kByFours) {  // two units of each of 4 lines are read at once
      return line * 128 + ((unit ^ ((line & 3) << 1 | (line >> 2 & 1))) << 4);
    } else if constexpr (kStepBytes == 128) {
      return line * 128 + ((unit ^ (line & 7)) << 4);
    } else {  // two lines side by side
      return (line >> 1) * 128 + (((line & 1) * 4 + (unit ^ ((line >> 1) & 3))) << 4);
    }
  }
};

// Reads fragments of a warp's rows: 16 rows by 32 bytes of K at a time, four words a lane. Of A the
// words are those of an instruction; of B the first two are those of 8 rows, the others of the next
// 8. `first` is the warp's first row, a multiple of 32. Of kHasBytesAcross, the even ones of the 16
// rows stand in the place of the first 8, the odd ones in that of the next 8. Of kByFours, 64 bytes
// of K at a time, of which a lane has the elements that it has of 32 bytes of an operand of 8 bits:
// the words of two instructions, each of 16 elements.
template <class Stage, bool kIsA>
class FragmentReader {
  using Element = typename Stage::Element;
  static constexpr bool kByWords = !Stage::kIsKMajor && Stage::kElementBytes == 4;
  static_assert(kIsA || !Stage::kByFours);

 public:
  static constexpr int kWords = Stage::kByFours ? 8 : 4;  // of 16 rows, of a lane

  __device__ __forceinline__ FragmentReader(int first, int lane) {
    // Of the lane's matrix: whether it is the second along M or N, and along K.
    const int upper = kIsA ? lane >> 3 & 1 : lane >> 4;
    const int later = kIsA ? lane >> 4 : lane >> 3 & 1;
    if constexpr (Stage::kHasBytesAcross) {
      // Of each 4 lines of K, the first matrix has two and the second the others.
      const int line = (lane >> 4) * 16 + (lane >> 3 & 1) * 2 + (lane >> 1 & 3) * 4 + (lane & 1);
      place_ = Stage::place(line, first / Stage::kUnitElements);
    } else if constexpr (kByWords) {
      place_ = Stage::place(lane & 3, (first + (lane >> 2)) / 4) + (lane >> 2 & 3) * 4;
    } else if constexpr (Stage::kByFours) {
      place_ = Stage::place(first + (lane >> 2), lane >> 1 & 1) + (lane & 1) * 8;
    } else if constexpr (Stage::kIsKMajor) {
      place_ = Stage::place(first + upper * 8 + (lane & 7), later);
    } else {
      place_ = Stage::place(later * 8 + (lane & 7), first / Stage::kUnitElements + upper);
    }
    keep(place_);
  }

  // Of the i-th 16 rows, and of the part-th 32 bytes of K of the stage at that address.
  __device__ __forceinline__ void read(uint32_t stage, int i, int part,
                                       uint32_t (&words)[kWords]) const {
    if constexpr (Stage::kByFours) {
      read_fours(stage, i, part, words);
      return;
    } else if constexpr (Stage::kHasBytesAcross) {
      read_bytes(stage, i, part, words);
    } else if constexpr (kByWords) {
      read_words(stage, i, part, words);
    } else if constexpr (Stage::kIsKMajor) {
      load_matrices(stage + (place_ ^ part << 5) + i * 16 * Stage::kStepBytes, words);
    } else {
      const uint32_t place = (place_ ^ (i & 3) << 5) + (i >> 2) * Stage::kBlockBytes;
      load_matrices_transposed(stage + place + part * 16 * 128, words);
    }
#pragma unroll
    for (int w = 0; w < 4; ++w) words[w] = multiplied<Element>(words[w]);
  }

 private:
  // Of each 16 elements a lane has four, two of an instruction's first 8 and two of the others.
  __device__ __forceinline__ void read_fours(uint32_t stage, int i, int part,
                                             uint32_t (&words)[kWords]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t at = stage + (place_ ^ (part * 2 + half) << 5) + i * 16 * Stage::kStepBytes;
      load_two_words(at, words[half * 4], words[half * 4 + 2]);
      load_two_words(at + 8 * Stage::kStepBytes, words[half * 4 + 1], words[half * 4 + 3]);
    }
  }

  // Two columns of a matrix of pairs of bytes are two rows of the operand, by turns along K.
  __device__ __forceinline__ void read_bytes(uint32_t stage, int i, int part,
                                             uint32_t (&words)[4]) const {
    uint32_t pairs[4];
    load_matrices_transposed(stage + (place_ ^ i << 4) + part * 32 * Stage::kLineBytes, pairs);
    words[0] = even_bytes(pairs[0], pairs[1]);
    words[kIsA ? 1 : 2] = odd_bytes(pairs[0], pairs[1]);
    words[kIsA ? 2 : 1] = even_bytes(pairs[2], pairs[3]);
    words[3] = odd_bytes(pairs[2], pairs[3]);
  }

  // No instruction transposes elements of 32 bits.
  __device__ __forceinline__ void read_words(uint32_t stage, int i, int part,
                                             uint32_t (&words)[4]) const {
    const uint32_t block = stage + (i >> 1) * Stage::kBlockBytes + part * 8 * 128;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const int upper = kIsA ? w & 1 : w >> 1, later = kIsA ? w >> 1 : w & 1;
      const uint32_t moved = ((i & 1) * 4 + upper * 2) << 4;
      words[w] = load_word(block + (place_ ^ moved) + later * 4 * 128);
    }
  }

  uint32_t place_;  // in a stage, of the first fragment
};

}  // namespace epifuse::sm80
