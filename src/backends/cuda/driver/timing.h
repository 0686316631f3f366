// Times work on the GPU, several contenders against each other in one run: absolute times drift
// with the card's clock, their ratios do not.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/driver/memory.h"

namespace epifuse::cuda {

// Times runs that queue their work on one stream, and touches no other stream. The L2 cache is
// flushed before each run.
class RoundTimer {
 public:
  // Writes `flush_bytes` of memory for each flush.
  RoundTimer(std::shared_ptr<const Device> device, jit::CuStream stream, std::size_t flush_bytes);
  ~RoundTimer();
  RoundTimer(const RoundTimer&) = delete;
  RoundTimer& operator=(const RoundTimer&) = delete;
  // Each once, in this order: microseconds of each on the device. Waits for the stream.
  std::vector<double> run(std::span<const std::function<void()>> runs);

 private:
  class Spans;
  std::shared_ptr<const Device> device_;
  jit::CuStream stream_;
  DeviceBuffer flush_;
  std::unique_ptr<Spans> spans_;
};

// Each run queues its work on the default stream. All throw UnavailableError without a GPU.

// Microseconds of each run on the device, one a round. Runs alternate one by one, in an order that
// rotates, so that all see the same clocks; the L2 cache is flushed before each. Stops after
// `rounds`, or when `seconds` have passed and three rounds are done.
std::vector<std::vector<double>> sample_interleaved(const std::vector<std::function<void()>>& runs,
                                                    int rounds, double seconds);

// The median of each run's samples.
std::vector<double> time_interleaved(const std::vector<std::function<void()>>& runs, int rounds,
                                     double seconds);

// Microseconds of each run, back to back in blocks of `block_seconds` whose second half is measured
// (0.8 and more let the card settle at its power limit): the median of `rounds` blocks, which
// alternate and rotate. The first run goes on for a while before, unmeasured.
std::vector<double> time_sustained(const std::vector<std::function<void()>>& runs,
                                   double block_seconds, int rounds = 3);

}  // namespace epifuse::cuda
