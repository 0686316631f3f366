// What kernels of the Hopper GEMM differ in, as types. A generated Config names one of each kind:
// Consumers (who multiplies a tile), Scheduler (which tiles there are), Producer (how operands come
// to the stages), Staging (how an epilogue's full-size operands come and its results go).
//
// All are templates: NVRTC keeps the constants of a struct that is none in every cubin.
#pragma once

#include "kernels/common/reduce.cuh"

namespace epifuse::sm90 {

template <bool kShareTiles, int kGroups = 2>
struct ConsumersOf {
  static constexpr bool kCooperative = kShareTiles;
  static constexpr int kCount = kGroups;  // warpgroups
  static constexpr int kSplitK = 1;       // CTAs of a cluster that share the sums of a tile
};
// Each owns whole tiles, and they take turns on the tensor cores.
using PingPong = ConsumersOf<false>;
// They share each tile, as many of its rows each.
using Cooperative = ConsumersOf<true>;
using ThreeCooperative = ConsumersOf<true, 3>;
// The first alone, of a cluster that splits K.
using OneConsumer = ConsumersOf<false>;
template <class Consumers, int kCtas>
struct SplitK : Consumers {
  static constexpr int kSplitK = kCtas;
};

enum class Products { one, batch, groups, padded_groups, k_groups, problems, side_by_side };

template <Products kProducts>
struct TilesOf {
  static constexpr bool kPointerArrays = kProducts == Products::problems;
  static constexpr bool kSideBySide = kProducts == Products::side_by_side;
  static constexpr bool kOwnParams = kPointerArrays || kSideBySide;  // of a tile's product
  static constexpr bool kPadded = kProducts == Products::padded_groups;
  static constexpr bool kGrouped = kProducts == Products::groups || kPadded;
  static constexpr bool kKGrouped = kProducts == Products::k_groups;
  static constexpr bool kStepsVary = kPointerArrays || kKGrouped;  // from tile to tile
  static constexpr bool kBatched =
      kProducts == Products::batch || kGrouped || kKGrouped;  // has a batch dim
  static constexpr bool kTwoWidths = false;
};
using OneProduct = TilesOf<Products::one>;
using BatchOfProducts = TilesOf<Products::batch>;
// Each group of rows has a B. Groups lie one behind the other; the device alone knows their ends.
using GroupedProducts = TilesOf<Products::groups>;
// The same, but A and the result have each group's rows apart.
using PaddedGroups = TilesOf<Products::padded_groups>;
// Each product of a batch sums over a group of K, whose ends the device alone knows.
using GroupsOfK = TilesOf<Products::k_groups>;
// Many products, each of its own sizes, described in memory.
using ManyProblems = TilesOf<Products::problems>;
// A few products of one A, each with parameters of its own.
using SideBySide = TilesOf<Products::side_by_side>;
// Some tiles are 8 columns narrower, so that tiles fill whole waves.
template <class Scheduler>
struct TwoWidths : Scheduler {
  static constexpr bool kTwoWidths = true;
};

// The dim along which an operand is contiguous.
enum class Major { k, mn };

// One thread loads tiles of both operands by TMA.
template <Major kA, Major kB>
struct TmaProducer {
  static constexpr bool kAIsKMajor = kA == Major::k, kBIsKMajor = kB == Major::k;
  static constexpr int kClusterM = 1, kClusterN = 1;
  static constexpr bool kMisalignedA = false, kMisalignedB = false, kGathersA = false;
  static constexpr bool kWidensB = false;
};
// kM CTAs of a cluster share tiles of B, kN tiles of A.
template <class Producer, int kM, int kN>
struct Multicast : Producer {
  static constexpr int kClusterM = kM, kClusterN = kN;
};
// Three more warps put rows in order that start off 16-byte boundaries: of A, of B.
template <class Producer, bool kA, bool kB>
struct MisalignedRows : Producer {
  static constexpr bool kMisalignedA = kA, kMisalignedB = kB;
};
// Three more warps make elements of 16 bits, To, of those of B, which have 8.
template <class Producer, class From_, class To_>
struct WidenedB : Producer {
  using From = From_;
  using To = To_;
  static constexpr bool kWidensB = true;
};
// Three more warps copy the rows of A that an index names.
template <class Producer>
struct GatheredRows : Producer {
  static constexpr bool kGathersA = true;
};

// Each consumer has places for so many chunks of loads and of stores in flight.
template <int kLoads, int kStores>
struct OwnStaging {
  static constexpr int kLoadDepth = kLoads, kStoreDepth = kStores;
  static constexpr bool kInPlace = false, kLoadsInRing = false, kTransposed = false;
};
// Results are staged where full-size loads were.
template <int kLoads, int kStores>
struct StagingInPlace : OwnStaging<kLoads, kStores> {
  static constexpr bool kInPlace = true;
};
// Full-size loads come through the stages of operands.
template <int kLoads, int kStores>
struct LoadsInRing : OwnStaging<kLoads, kStores> {
  static constexpr bool kLoadsInRing = true;
};

// A row of staging has a chunk's column, as memory has it where D^T is computed: 16-bit elements.
template <class Staging>
struct Transposed : Staging {
  static constexpr bool kTransposed = true;
};

// How a tile of B holds the columns of two products, where they are gated.
enum class Gates { none, halves, by_turns };

// Whether blocks of 128 along K have scales: one of B for all columns of a tile (of each product,
// where it holds two), or one for each column.
enum class Scaling { none, by_tile, by_column };

// What is usual; a generated Config overrides it.
struct UsualConfig {
  using Consumers = PingPong;
  using Scheduler = OneProduct;
  using Producer = TmaProducer<Major::k, Major::k>;
  using Staging = OwnStaging<1, 1>;
  static constexpr Gates kGates = Gates::none;
  static constexpr bool kAddsIntegers = false;                    // of 32 bits; else float32
  static constexpr bool kPromotesSums = false;                    // of each step of K, to float32
  static constexpr int kColumnParts = 1;                          // of a tile, multiplied by turns
  static constexpr Scaling kScaling = Scaling::none;              // of each step's sums
  static constexpr int kTileK = 64;                               // 128 bytes: one swizzled row
  static constexpr unsigned kNonTmaLoads = 0, kNonTmaStores = 0;  // bit i: no TMA
  // Of these, bit i: its columns lie side by side, and two of them are read at once.
  static constexpr unsigned kRowLoads = 0, kPairedLoads = 0;
  // And warps copy its rows from staging, so many elements at once.
  static constexpr unsigned kCopiedStores = 0;
  static constexpr int kCopiedAtOnce = 1;
  static constexpr bool kWholeSectors = false;  // of memory, which rows of chunks cut
  // Bit i: its rows are looked up, or put where an index says.
  static constexpr unsigned kIndexedCols = 0, kIndexedTiles = 0, kIndexedStores = 0;
  // Of the epilogue's last values, those of rows first (kernels/sm90/reduce.cuh).
  using RowReductions = Reductions<>;
  using ColReductions = Reductions<>;
};

}  // namespace epifuse::sm90
