// Blocks of device memory that the runs on a stream have one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/driver/memory.h"

namespace epifuse::cuda {

// Thread-safe. A block belongs to one run while that is queued; from then on the stream's order
// keeps its work apart from that of the run that has the block next.
class StreamBlocks {
 public:
  StreamBlocks(std::shared_ptr<const Device> device, std::size_t most_bytes)
      : device_(std::move(device)), most_bytes_(most_bytes) {}

  // A block of at least `bytes` (> 0) for the stream of that id (cuStreamGetId). Empty where more
  // memory than `most_bytes` would be kept: streams that have ended keep theirs.
  DeviceBuffer take(std::size_t bytes, std::uint64_t stream);
  void give_back(DeviceBuffer block, std::uint64_t stream);

  static constexpr std::size_t kMostBytes = std::size_t{256} << 20;  // that a program keeps

 private:
  std::shared_ptr<const Device> device_;
  std::size_t most_bytes_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::vector<DeviceBuffer>> unused_;
  std::size_t num_bytes_ = 0;  // of all blocks, those in use as well
};

}  // namespace epifuse::cuda
