// Results whose rows TMA cannot address, in tiles of several chunks. Memory reads a sector of 32
// bytes that is written in part, so a warp writes whole ones: what a row's chunk has behind its
// last whole sector waits in shared memory for the row's next chunk.
#pragma once

#include "kernels/sm90/chunk.cuh"
#include "kernels/sm90/primitives.cuh"

namespace epifuse::sm90 {

constexpr int kSectorBytes = 32;
constexpr int kPieceBytes = 16;
constexpr int kCarryBytes = kBlockRows * kSectorBytes;  // of all rows of a chunk of one result

// 16 bytes that begin `by` bytes after the first of `words`.
__device__ __forceinline__ void shift_bytes(uint32_t (&words)[8], int by) {
  if (by & 8) {
#pragma unroll
    for (int i = 0; i < 6; ++i) words[i] = words[i + 2];
  }
  if (by & 4) {
#pragma unroll
    for (int i = 0; i < 5; ++i) words[i] = words[i + 1];
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = shift_right(words[i], words[i + 1], (by & 3) * 8);
}

// A warp's rows of a chunk of one result, its first `columns` columns, from `slot` and the slots
// behind it; `carry` has a sector for each row, the warp's first one first. Chunks of a row of
// tiles come one after the other, from left to right. Lanes take units, or where these are short
// pieces of 16 bytes that begin at multiples of 16 in memory, wherever they do in the chunk.
template <class Config, class Element, bool kFewRegisters>
class SectorCopy {
  static constexpr int kBytes = sizeof(typename Element::Storage);
  static constexpr int kMostBytes = 8;
  // Of a unit, which neither a row nor what a tile has of it cuts.
  static constexpr int kUnit =
      Config::kCopiedAtOnce * kBytes > kMostBytes ? kMostBytes : Config::kCopiedAtOnce* kBytes;
  static constexpr int kRowBytes = kChunkColumns * kBytes;  // of a chunk
  static constexpr int kPieces = kRowBytes / kPieceBytes, kUnits = kRowBytes / kUnit;
  static constexpr bool kTakesUnits = kUnit >= 4;
  static constexpr int kOfRow = kTakesUnits ? kUnits : kPieces;
  static constexpr int kLanes = kOfRow < 32 ? kOfRow : 32;  // that take a row
  static constexpr int kAcross = kOfRow / kLanes;           // and as many of it each
  static constexpr int kRowsAtOnce = 32 / kLanes, kTurns = kWarpRows / kRowsAtOnce;
  // Turns before any of them is written: a write holds up what is read next.
  static constexpr int kMostUnits = kFewRegisters ? 2 : 8;
  static constexpr int kUnitsRead = kMostUnits * 4 / kUnit / kAcross;
  static constexpr int kRead = !kTakesUnits     ? kFewRegisters ? 1 : 2
                               : kUnitsRead > 0 ? kUnitsRead
                                                : 1;
  static_assert(kTurns % kRead == 0 && kRowBytes % kSectorBytes == 0);

  struct Piece {
    int row;
    bool is_written;
    char* to;
    uint32_t words[8];
  };

 public:
  __device__ __forceinline__ SectorCopy(const abi::Matrix& to, const unsigned char* slot,
                                        const unsigned char* carry, const Chunk& chunk, int columns,
                                        int rows, int lane)
      : slot_(cute::cast_smem_ptr_to_uint(slot)),
        carry_(cute::cast_smem_ptr_to_uint(carry)),
        end_(columns * kBytes),
        rows_(rows),
        lane_(anew(lane)),
        stride_(to.row_stride * kBytes) {
    long long at = chunk.row * to.row_stride + chunk.col;
    if constexpr (Config::Scheduler::kBatched) at += offset_of(to.batch, chunk.batch);
    to_ = static_cast<char*>(to.data) + at * kBytes;
    // Not kept from chunk to chunk, beside the accumulators, where the compiler sees that it could.
    begins_ = anew(static_cast<int>(reinterpret_cast<unsigned long long>(to_)));
  }

  // Of a tile's rows the chunk is the first, the last.
  __device__ __forceinline__ void run(bool is_first, bool is_last) const {
    const int begin = is_first ? 0 : -kSectorBytes;
    if constexpr (kTakesUnits) {
      copy_units(begin);
      if (is_last) copy_sector(begin, [](int behind) { return kRowBytes - behind; });
    } else {
      copy_pieces(begin);
      if (is_first) copy_sector(begin, [&](int behind) { return first_edge(behind); });
      if (is_last) copy_sector(begin, [&](int behind) { return last_sector(behind); });
    }
    if (!is_last) keep();
  }

 private:
  // As many as a chunk has, from the sector on that each row of it begins in.
  __device__ __forceinline__ void copy_units(int begin) const {
    const int first_row = lane_ / kLanes, byte = lane_ % kLanes * kUnit;
    char* to = to_ + first_row * stride_;
#pragma unroll
    for (int turn = 0; turn < kTurns; turn += kRead) {
      CopyUnit<kUnit> units[kRead][kAcross];
#pragma unroll
      for (int i = 0; i < kRead; ++i) {
        const int row = (turn + i) * kRowsAtOnce + first_row;
        const int first = byte - behind_sector(row);
#pragma unroll
        for (int u = 0; u < kAcross; ++u) units[i][u].load(place(row, first + u * kLanes * kUnit));
      }
#pragma unroll
      for (int i = 0; i < kRead; ++i) {
        const int row = (turn + i) * kRowsAtOnce + first_row;
        const int first = byte - behind_sector(row);
#pragma unroll
        for (int u = 0; u < kAcross; ++u) {
          const int at = first + u * kLanes * kUnit;
          units[i][u].store(to + at, row, begin <= at && at < end_ ? rows_ : 0);
        }
        to += kRowsAtOnce * stride_;
      }
    }
  }

  // Those whose sectors are there as a whole.
  __device__ __forceinline__ void copy_pieces(int begin) const {
#pragma unroll
    for (int turn = 0; turn < kTurns; turn += kRead) {
      Piece pieces[kRead];
#pragma unroll
      for (int i = 0; i < kRead; ++i) {
        pieces[i] = load((turn + i) * kRowsAtOnce + lane_ / kLanes, lane_ % kLanes, begin);
      }
#pragma unroll
      for (int i = 0; i < kRead; ++i) {
        const Piece& piece = pieces[i];
        store_if(piece.to, piece.words, piece.row, piece.is_written ? rows_ : 0);
      }
    }
  }

  // Bytes from the sector that a row of the chunk begins in to the row.
  __device__ __forceinline__ int behind_sector(int row) const {
    const uint32_t at = static_cast<uint32_t>(row) * static_cast<uint32_t>(stride_);
    return static_cast<int>((static_cast<uint32_t>(begins_) + at) & (kSectorBytes - 1));
  }

  // Where the sectors of a row begin of which another tile has a part: the first one, unless the
  // last one is the same, and the last one.
  __device__ __forceinline__ int first_edge(int behind) const {
    return behind > 0 && kSectorBytes - behind <= end_ ? -behind : end_;
  }
  __device__ __forceinline__ int last_sector(int behind) const {
    return ((end_ + behind) & ~(kSectorBytes - 1)) - behind;
  }

  // Piece of a row counted from the sector that its chunk begins in; written where all of its
  // sector is there.
  __device__ __forceinline__ Piece load(int row, int number, int begin) const {
    Piece piece;
    piece.row = row;
    const int behind = behind_sector(row);
    const int at = number * kPieceBytes - behind;  // its first byte in the row's chunk
    const int sector = number / 2 * kSectorBytes - behind;
    piece.is_written = begin <= sector && sector + kSectorBytes <= end_;
    piece.to = to_ + row * stride_ + at;
    const int from = at >> 4;
    load_four(place(row, from * kPieceBytes), piece.words);
    load_four(place(row, min(from + 1, kPieces - 1) * kPieceBytes), piece.words + 4);
    shift_bytes(piece.words, at & (kPieceBytes - 1));
    return piece;
  }

  // A byte of a row of the chunk; before it, of what was kept of the chunk before. Staging has
  // unit u of 16 bytes of row r at place u ^ r % 8.
  __device__ __forceinline__ uint32_t place(int row, int byte) const {
    const uint32_t staged = slot_ + (kPieces > 8 ? (byte >> 7) * kSlotBytes : 0) + row * 128 +
                            (((byte >> 4 ^ row) & 7) << 4) + (byte & 15);
    return byte < 0 ? carry_ + (row + 1) * kSectorBytes + byte : staged;
  }

  // Of each row the units of a sector that begins at byte first_byte(behind_sector). They leave
  // together: each write of a part costs as much.
  template <class FirstByte>
  __device__ __forceinline__ void copy_sector(int begin, FirstByte first_byte) const {
    constexpr int kOfSector = kSectorBytes / kUnit, kRowsOfTurn = 32 / kOfSector;
#pragma unroll
    for (int turn = 0; turn < kWarpRows; turn += kRowsOfTurn) {
      const int row = turn + lane_ / kOfSector;
      const int at = first_byte(behind_sector(row)) + lane_ % kOfSector * kUnit;
      CopyUnit<kUnit> unit;
      unit.load(place(row, min(at, kRowBytes - kUnit)));
      unit.store(to_ + row * stride_ + at, row, begin <= at && at < end_ ? rows_ : 0);
    }
  }

  // The last sector's bytes of each row, of which some are to be written.
  __device__ __forceinline__ void keep() const {
    const int row = lane_ >> 1, unit = lane_ & 1;
    uint32_t words[4];
    load_four(place(row, kRowBytes - kSectorBytes + unit * kPieceBytes), words);
    __syncwarp();  // all have read what was kept before
    store_four(carry_ + row * kSectorBytes + unit * kPieceBytes, words);
  }

  uint32_t slot_, carry_;
  int begins_, end_, rows_, lane_;
  long long stride_;
  char* to_;
};

}  // namespace epifuse::sm90
