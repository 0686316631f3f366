// Which kernel the model chose at sizes that came before: to weigh all candidates takes longer than
// to launch one.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <tuple>

#include "backends/cuda/prepare/prepare.h"

namespace epifuse::cuda {

struct ChosenKernel {
  const Kernel* kernel = nullptr;
  double expected_us = 0;
};

// Thread-safe. The kernels belong to others, who live longer.
class ChosenKernels {
 public:
  std::optional<ChosenKernel> find(const StepKernels& kernels, const codegen::GemmSizes& sizes,
                                   const targets::DeviceProfile& device) const {
    const std::shared_lock lock(mutex_);
    const auto found = chosen_.find(key(kernels, sizes, device));
    if (found == chosen_.end()) return std::nullopt;
    return found->second;
  }

  void add(const StepKernels& kernels, const codegen::GemmSizes& sizes,
           const targets::DeviceProfile& device, const ChosenKernel& chosen) {
    constexpr std::size_t kMost = 1 << 14;  // numbers of rows that a server may see
    const std::unique_lock lock(mutex_);
    if (chosen_.size() >= kMost) chosen_.clear();
    chosen_[key(kernels, sizes, device)] = chosen;
  }

 private:
  using Key = std::tuple<const StepKernels*, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                         std::int64_t, std::int64_t, std::int64_t, targets::DeviceProfile>;
  static Key key(const StepKernels& kernels, const codegen::GemmSizes& sizes,
                 const targets::DeviceProfile& device) {
    return {&kernels,     sizes.batch,       sizes.m,           sizes.n, sizes.k,
            sizes.groups, sizes.row_bytes_a, sizes.row_bytes_b, device};
  }

  mutable std::shared_mutex mutex_;
  std::map<Key, ChosenKernel> chosen_;
};

}  // namespace epifuse::cuda
