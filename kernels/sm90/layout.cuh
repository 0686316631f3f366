// What lies where in the shared memory of one CTA of a Hopper GEMM.
#pragma once

#include "kernels/common/row_classes.cuh"
#include "kernels/sm90/announce.cuh"
#include "kernels/sm90/epilogue.cuh"
#include "kernels/sm90/scale_ring.cuh"
#include "kernels/sm90/square_maxima.cuh"

namespace epifuse::sm90 {

constexpr int kWarpsPerGroup = 4;
constexpr int kMovers = 3;  // warps that put rows of misaligned operands in order, or widen B

// In this order: stages of A, stages of B, staging of what is moved there, of stores, of loads and
// of what warps copy (kStoresAt, kLoadsAt, kCopiesAt), row vectors, maxima of squares, block
// scales, barriers.
template <class Config_, class Epilogue>
struct SharedLayout : Config_ {
  using Config = Config_;
  using Consumers = typename Config::Consumers;
  using Scheduler = typename Config::Scheduler;
  using Producer = typename Config::Producer;
  using Staging = typename Config::Staging;
  static constexpr int kConsumers = Consumers::kCount;
  static constexpr int kABytes = Config::kTileM * 128;
  static constexpr int kBBytes = Config::kTileN * 128;
  static constexpr int kLoadSlots = slots<typename Epilogue::Tiles>(Config::kNonTmaLoads);
  static constexpr int kStoreSlots = slots<typename Epilogue::Stores>(Config::kNonTmaStores);
  static constexpr int kCopySlots = slots<typename Epilogue::Stores>(~Config::kCopiedStores);
  static constexpr int kA = 0;
  static constexpr int kB = kA + Config::kStages * kABytes;
  using ARows = StagedRows<Producer::kAIsKMajor, Config::kTileM>;
  // Tiles whose columns are no multiple of 64 take no misaligned rows.
  using BRows = StagedRows<Producer::kBIsKMajor, Producer::kMisalignedB ? Config::kTileN : 64>;
  static constexpr int kStagedABytes = Producer::kMisalignedA ? ARows::kBytes : 0;
  static constexpr int kStagedBBytes = Producer::kWidensB       ? kBBytes / 2
                                       : Producer::kMisalignedB ? BRows::kBytes
                                                                : 0;
  static constexpr int kStagedBytes = kStagedABytes + kStagedBBytes;
  static constexpr bool kStagesB = kStagedBBytes > 0, kStagesAny = kStagedBytes > 0;
  // By the producer's other warps, so that consumers have their own chunks to transfer.
  static constexpr bool kMovesRows = kStagesAny || Producer::kGathersA;
  static constexpr int kNumStagings = Producer::kWidensB ? abi::kNarrowStagings
                                      : kStagesAny       ? abi::kStagings
                                                         : 0;
  static constexpr int kStagedAt = kB + Config::kStages * kBBytes;
  static constexpr int kStoresAt = kStagedAt + kNumStagings * kStagedBytes;
  static constexpr int kPlaceBytes = kSlotBytes * kStoreSlots;  // of a chunk's results
  static constexpr int kStoreDepth =
      Staging::kInPlace || kStoreSlots == 0 ? 0 : Staging::kStoreDepth;
  static constexpr int kLoadsAt = kStoresAt + kConsumers * kStoreDepth * kPlaceBytes;
  static constexpr int kLoadPlaceBytes = kSlotBytes * kLoadSlots;
  static constexpr int kLoadDepth =
      kLoadSlots > 0 && !Staging::kLoadsInRing ? Staging::kLoadDepth : 0;
  static constexpr int kCopiesAt = kLoadsAt + kConsumers * kLoadDepth * kLoadPlaceBytes;
  static constexpr int kChunksOfRow = kChunksAcross<Config>;
  static constexpr bool kCarries = Config::kWholeSectors;
  static constexpr int kMostBesideCopies = 96;  // accumulators of a thread
  static constexpr bool kCopiesFew =
      kRowsOfConsumer<Config> * Config::kTileN / 128 > kMostBesideCopies;
  static constexpr int kCarriesAt = kCopiesAt + kConsumers * kCopySlots * kSlotBytes;
  static constexpr int kCarried =
      kCarries ? count<typename Epilogue::Stores>(Config::kCopiedStores) * kCarryBytes : 0;
  static constexpr int kRowsAt = kCarriesAt + kConsumers * kCarried;
  static constexpr int kRowBytes =
      Epilogue::Rows::kCount * kResultColumns<Config> * 4;  // a consumer
  using Scales = ScaleRing<Config>;
  static constexpr int kSquaresAt = kRowsAt + kConsumers * kRowBytes;
  static constexpr int kScalesAt = kSquaresAt + SquareMaxima<Config, Epilogue>::kBytes;
  static constexpr int kFullAt = kScalesAt + Scales::kSlots * Scales::kSlotBytes;
  static constexpr int kEmptyAt = kFullAt + Config::kStages * 8;
  // Of each consumer: whether loads are there, results are staged, staging may be used again.
  static constexpr int kStagedDepth = kStoreDepth > 0 ? kStoreDepth : kLoadDepth;
  static constexpr int kLoadedAt = kEmptyAt + Config::kStages * 8;
  static constexpr int kStagedBarriersAt = kLoadedAt + kConsumers * kLoadDepth * 8;
  static constexpr int kSentAt = kStagedBarriersAt + kConsumers * kStagedDepth * 8;
  static constexpr int kLandedAt = kSentAt + kConsumers * kStoreDepth * 8;
  static constexpr int kDrainedAt = kLandedAt + kNumStagings * 8;
  // The epilogue's first loads wait until the mainloop runs, whose operands they would hold up.
  static constexpr bool kLoadsWait = kLoadDepth > 0 && !kMovesRows;
  static constexpr int kUnderwayAt = kDrainedAt + kNumStagings * 8;
  // Of each slot of block scales: whether they are there, whether all warps have read them.
  static constexpr int kScalesThereAt = kUnderwayAt + (kLoadsWait ? 8 : 0);
  static constexpr int kScalesReadAt = kScalesThereAt + Scales::kSlots * 8;
  static constexpr int kBarriersEnd = kScalesReadAt + Scales::kSlots * 8;
  static constexpr int kBytes =
      Scheduler::kGrouped ? (kBarriersEnd + 15) / 16 * 16 + TileRing<Config>::kBytes : kBarriersEnd;
  static_assert(kBytes == Config::kSharedBytes, "the host's sum must match");

  // That fill a stage: the producer's for what lands in order, the movers' for what does not, one
  // of each lane for what it copies.
  static constexpr int kFullArrivals = kStagesAny ? kMovers + !Producer::kMisalignedA + !kStagesB
                                                  : (Producer::kGathersA ? kMovers * 32 + 1 : 1);

  // Warps that take an announced tile: those that multiply it, transfer its chunks, gather its
  // rows, copy its scales.
  static constexpr bool kHasTransfers = kStagedDepth > 0 && !kMovesRows;
  static constexpr int kTakers =
      (Consumers::kCooperative ? kConsumers : 1) * (kWarpsPerGroup + kHasTransfers) +
      (Producer::kGathersA ? kMovers : 0) + Scales::kExists;

  // A tile's partial sums take the place of the stages (kernels/sm90/exchange.cuh).
  static_assert(Consumers::kSplitK == 1 || Config::kTileM * Config::kTileN * 4 <= kStoresAt);

  static __device__ __forceinline__ unsigned char* a(int stage) {
    return shared_memory() + kA + stage * kABytes;
  }
  static __device__ __forceinline__ unsigned char* b(int stage) {
    return shared_memory() + kB + stage * kBBytes;
  }
  static __device__ __forceinline__ FullBarrier& full(int stage) {
    return reinterpret_cast<FullBarrier*>(shared_memory() + kFullAt)[stage];
  }
  // Where a consumer's chunks are staged: what comes in, and what leaves.
  static __device__ __forceinline__ unsigned char* loads(int group, int place) {
    return shared_memory() + kLoadsAt + (group * kLoadDepth + place) * kLoadPlaceBytes;
  }
  static __device__ __forceinline__ unsigned char* stores(int group, int place) {
    if constexpr (Staging::kInPlace) return loads(group, place);
    return shared_memory() + kStoresAt + (group * kStoreDepth + place) * kPlaceBytes;
  }
  // Where a consumer stages results that its warps copy from there.
  static __device__ __forceinline__ unsigned char* copies(int group) {
    return shared_memory() + kCopiesAt + group * kCopySlots * kSlotBytes;
  }
  static __device__ __forceinline__ unsigned char* carries(int group) {
    return shared_memory() + kCarriesAt + group * kCarried;
  }
  static __device__ __forceinline__ FullBarrier& loaded(int group, int place) {
    return reinterpret_cast<FullBarrier*>(shared_memory() + kLoadedAt)[group * kLoadDepth + place];
  }
  static __device__ __forceinline__ EmptyBarrier& staged(int group, int place) {
    return reinterpret_cast<EmptyBarrier*>(shared_memory() +
                                           kStagedBarriersAt)[group * kStagedDepth + place];
  }
  static __device__ __forceinline__ EmptyBarrier& sent(int group, int place) {
    return reinterpret_cast<EmptyBarrier*>(shared_memory() + kSentAt)[group * kStoreDepth + place];
  }
  // What is still to be put in order.
  static __device__ __forceinline__ unsigned char* staged_a(int staging) {
    return shared_memory() + kStagedAt + staging * kStagedBytes;
  }
  static __device__ __forceinline__ unsigned char* staged_b(int staging) {
    return staged_a(staging) + kStagedABytes;
  }
  static __device__ __forceinline__ FullBarrier& landed(int staging) {
    return reinterpret_cast<FullBarrier*>(shared_memory() + kLandedAt)[staging];
  }
  static __device__ __forceinline__ EmptyBarrier& drained(int staging) {
    return reinterpret_cast<EmptyBarrier*>(shared_memory() + kDrainedAt)[staging];
  }
  static __device__ __forceinline__ EmptyBarrier& barrier(int i) {
    return reinterpret_cast<EmptyBarrier*>(shared_memory() + kFullAt)[i];
  }
  static __device__ __forceinline__ EmptyBarrier& underway() {
    return *reinterpret_cast<EmptyBarrier*>(shared_memory() + kUnderwayAt);
  }
  static __device__ __forceinline__ EmptyBarrier& empty(int stage) {
    return reinterpret_cast<EmptyBarrier*>(shared_memory() + kEmptyAt)[stage];
  }
  static __device__ __forceinline__ float* squares() {
    return reinterpret_cast<float*>(shared_memory() + kSquaresAt);
  }
  // Of a CTA's step of that number.
  static __device__ __forceinline__ float* scales(uint32_t number) {
    return reinterpret_cast<float*>(shared_memory() + kScalesAt +
                                    number % Scales::kSlots * Scales::kSlotBytes);
  }
  static __device__ __forceinline__ FullBarrier& scales_there(uint32_t number) {
    return reinterpret_cast<FullBarrier*>(shared_memory() +
                                          kScalesThereAt)[number % Scales::kSlots];
  }
  static __device__ __forceinline__ EmptyBarrier& scales_read(uint32_t number) {
    return reinterpret_cast<EmptyBarrier*>(shared_memory() +
                                           kScalesReadAt)[number % Scales::kSlots];
  }
};

}  // namespace epifuse::sm90
