// Blocks of device memory that the runs on a stream have one after the other.
#include "backends/cuda/driver/stream_blocks.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace epifuse::cuda {

DeviceBuffer StreamBlocks::take(std::size_t bytes, std::uint64_t stream) {
  const std::scoped_lock lock(mutex_);
  std::vector<DeviceBuffer>& unused = unused_[stream];
  const auto found = std::ranges::find_if(
      unused, [&](const DeviceBuffer& block) { return block.size_bytes() >= bytes; });
  if (found != unused.end()) {
    DeviceBuffer block = std::move(*found);
    unused.erase(found);
    return block;
  }
  // Powers of two: runs of many sizes share few blocks.
  const std::size_t rounded = bytes > kMostBytes ? bytes : std::bit_ceil(bytes);
  if (rounded > most_bytes_ - num_bytes_) return {};
  const RelaxedCapture relaxed(device_->api());
  DeviceBuffer block(device_, rounded);
  num_bytes_ += rounded;
  return block;
}

void StreamBlocks::give_back(DeviceBuffer block, std::uint64_t stream) {
  const std::scoped_lock lock(mutex_);
  unused_[stream].push_back(std::move(block));
}

}  // namespace epifuse::cuda
