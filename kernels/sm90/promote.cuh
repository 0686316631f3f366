// The mainloop where tensor cores keep few bits of what they add up, or blocks of K have scales:
// the sums of each step are its own, and added in float32, multiplied by scales.
#pragma once

#include "kernels/sm90/block_scales.cuh"
#include "kernels/sm90/exchange.cuh"

namespace epifuse::sm90 {

// A consumer's; kCount accumulators of each block of 64 rows, whose columns `Atom` multiplies in
// kColumnParts. `Release` tells the producer that a stage is free.
template <class Layout, class Atom, int kCount, class Release>
class PromotedSums {
  using Config = typename Layout::Config;
  using Scaler = BlockScaler<Config, Layout>;
  using Ring = RingPosition<Config::kStages>;
  static constexpr int kBlocks = kRowsOfConsumer<Config> / kBlockRows;
  static constexpr int kAccumulators = Exchange<Config>::kAccumulators;
  using Accumulators = typename Exchange<Config>::Accumulators;
  static constexpr int kParts = Config::kColumnParts, kRounds = kBlocks * kParts;
  static constexpr int kOfPart = kCount / kParts;  // accumulators
  using Part = float[kAccumulators / kParts];
  static constexpr int kRowsAt = Config::Consumers::kCooperative ? kBlocks * kBlockBytes : 0;
  static_assert(Config::Producer::kAIsKMajor && Config::Producer::kBIsKMajor);

 public:
  __device__ __forceinline__ PromotedSums(int group, Ring& ring, Scaler& scaler,
                                          const Release& release)
      : group_(group), ring_(ring), scaler_(scaler), release_(release) {}

  // All steps of a tile; returns the last one's stage, which is still to be released. Not
  // `has_rows`: none of this consumer's rows is there.
  __device__ __forceinline__ int multiply(Accumulators& acc, int steps, bool has_rows) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) acc[block][i] = 0.0f;
    }
    if (!has_rows) return pass(steps);
    if constexpr (kMultipliesAhead<Config>) {
      return multiply_ahead(acc[0], steps);
    } else {
      return multiply_in_turn(acc, steps);
    }
  }

 private:
  __device__ __forceinline__ int pass(int steps) {
    int stage = 0;
#pragma unroll 1
    for (int k = 0; k < steps; ++k) {
      stage = ring_.stage;
      Layout::full(stage).wait(ring_.phase);
      if (k + 1 < steps) release_(stage);
      scaler_.pass();
      ring_.next();
    }
    return stage;
  }

  struct Step {
    int stage, previous;  // and the one before, -1 at first
    uint64_t a, b;
  };
  __device__ __forceinline__ int multiply_in_turn(Accumulators& acc, int steps) {
    const int stage = ring_.stage;
    Layout::full(stage).wait(ring_.phase);
    Step step = {stage, -1, a_of(stage), b_of(stage)};
#pragma unroll 1
    for (int left = steps; left > 0; left -= Scaler::kTurns) {
      multiply_step<0>(step, left > 1, acc);
      if (Scaler::kTurns > 1 && left > 1) multiply_step<Scaler::kTurns - 1>(step, left > 2, acc);
    }
    return step.previous;
  }
  // Between the end of a block's products and the start of the next ones there are additions alone:
  // what else a step needs is done while tensor cores work.
  template <int kTurn>
  __device__ __forceinline__ void multiply_step(Step& step, bool has_next, Accumulators& acc) {
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      Part part;
      start(part, step.a, step.b, round);
      if (round % kParts == 0) scaler_.template take<kTurn>(round / kParts);
      if (round == 0 && step.previous >= 0) release_(step.previous);
      if (round == kRounds - 1) {
        ring_.next();
        step = {ring_.stage, step.stage, now(a_of(ring_.stage)), now(b_of(ring_.stage))};
        if (has_next) Layout::full(ring_.stage).wait(ring_.phase);
      }
      cute::warpgroup_wait<0>();
      fence(part);
      add(round, part, acc);
    }
  }
  // Of a block of rows, a part of the columns.
  __device__ __forceinline__ void add(int round, const Part& part, Accumulators& acc) {
    const int block = round / kParts;
    scaler_.template add<kOfPart>(block, round % kParts * kOfPart, part, acc[block]);
  }

  // Of one block of rows: the next step's products are under way while those of a step are added.
  __device__ __forceinline__ int multiply_ahead(Part& sums, int steps) {
    static_assert(kParts == 1);
    constexpr int kOdd = Scaler::kTurns - 1;
    Part even, odd;
    start_step(even);
    int left = steps;
#pragma unroll 1
    for (; left > 2; left -= 2) {
      start_step(odd);
      finish_step<1, 0>(even, sums);
      start_step(even);
      finish_step<1, kOdd>(odd, sums);
    }
    if (left == 2) {
      start_step(odd);
      finish_step<1, 0>(even, sums);
      finish_step<0, kOdd>(odd, sums);
    } else {
      finish_step<0, 0>(even, sums);
    }
    return last_stage();
  }
  __device__ __forceinline__ void start_step(Part& part) {
    Layout::full(ring_.stage).wait(ring_.phase);
    start(part, a_of(ring_.stage), b_of(ring_.stage), 0);
    ring_.next();
  }
  // Of the oldest step under way, beside which there are kUnderway. The last stage is the caller's.
  template <int kUnderway, int kTurn>
  __device__ __forceinline__ void finish_step(Part& part, Part& sums) {
    scaler_.template take<kTurn>(0);
    cute::warpgroup_wait<kUnderway>();
    fence(part);
    if (kUnderway > 0) release_(before(last_stage()));
    scaler_.template add<kCount>(0, 0, part, sums);
  }
  __device__ __forceinline__ int last_stage() const { return before(ring_.stage); }
  static __device__ __forceinline__ int before(int stage) {
    return stage == 0 ? Config::kStages - 1 : stage - 1;
  }

  // Descriptors of a stage's operands.
  __device__ __forceinline__ uint64_t a_of(int stage) const {
    return descriptor<true>(Layout::a(0)) + ((stage * Layout::kABytes + group_ * kRowsAt) >> 4);
  }
  static __device__ __forceinline__ uint64_t b_of(int stage) {
    return descriptor<true>(Layout::b(0)) + (stage * Layout::kBBytes >> 4);
  }
  // x, which is computed here rather than where it is used.
  static __device__ __forceinline__ uint64_t now(uint64_t x) {
    auto low = static_cast<uint32_t>(x);
    asm volatile("" : "+r"(low));
    return x >> 32 << 32 | low;
  }
  // The products of a step with a block of rows and a part of the columns.
  static __device__ __forceinline__ void start(Part& part, uint64_t a, uint64_t b, int round) {
    constexpr int kPartBytes = Layout::kBBytes / kParts;
    a += round / kParts * kBlockBytes >> 4;
    b += round % kParts * kPartBytes >> 4;
    fence(part);
    cute::warpgroup_arrive();
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      sm90::multiply<Atom>(a + j * kDescriptorStep<true>, b + j * kDescriptorStep<true>, part,
                           j != 0, cute::make_index_sequence<kOfPart>{});
    }
    cute::warpgroup_commit_batch();
    fence(part);
  }
  static __device__ __forceinline__ void fence(Part& sums) {
#pragma unroll
    for (int i = 0; i < kAccumulators / kParts; ++i) cute::warpgroup_fence_operand(sums[i]);
  }

  int group_;
  Ring& ring_;
  Scaler& scaler_;
  const Release& release_;
};

}  // namespace epifuse::sm90
