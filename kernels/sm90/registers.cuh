// How the registers of an SM are shared out.
#pragma once

#include "kernels/sm90/layout.cuh"

namespace epifuse::sm90 {

// Registers of a thread: the producer's warpgroup has what the accumulators leave. Two widths,
// clusters, many products, full-size loads and block scales take more of it.
template <class Config, class Epilogue>
struct Registers {
  static constexpr bool kMostAccumulators = kChunksOfConsumer<Config> > 4;
  static constexpr bool kManyProducts =
      Config::Scheduler::kBatched || Config::Scheduler::kOwnParams;
  static constexpr bool kSimple = !Config::Scheduler::kTwoWidths && !kManyProducts &&
                                  kClusterSize<Config> == 1 && Epilogue::Tiles::kCount == 0 &&
                                  Config::kScaling == Scaling::none;
  static constexpr bool kLeavesRoom = !kMostAccumulators || kManyProducts;
  static constexpr bool kThree = Config::Consumers::kCount == 3;
  static constexpr uint32_t kOfProducer = kThree ? 32 : kSimple ? 24 : kLeavesRoom ? 56 : 40;
  static constexpr uint32_t kToMultiply = kThree ? 160 : kSimple ? 240 : kLeavesRoom ? 224 : 232;
};

}  // namespace epifuse::sm90
