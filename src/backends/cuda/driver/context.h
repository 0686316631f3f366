// What an executable keeps in one CUDA context: loaded kernels, the vendor GEMM, workspaces.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/choose/tuned_choices.h"
#include "backends/cuda/driver/device.h"
#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/driver/memory.h"
#include "backends/cuda/driver/stream_blocks.h"
#include "backends/cuda/vendor/vendor_gemm.h"
#include "targets/device_profile.h"

namespace epifuse::cuda {

class Context;

// Device memory for the work that is queued on one stream next; given back, for work that the
// stream gets later, at the end of scope.
class Workspace {
 public:
  Workspace(const Context& context, std::size_t bytes, jit::CuStream stream);
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace();
  char* data() const { return reinterpret_cast<char*>(pointer_); }

 private:
  const Context& context_;
  jit::CuStream stream_;
  unsigned long long stream_id_ = 0;
  DeviceBuffer block_;  // empty: the memory is the pool's, or a captured graph's
  bool is_of_pool_ = false;
  jit::CuDevicePtr pointer_ = 0;
};

// Thread-safe.
class Context {
 public:
  // Throws UnavailableError when the device cannot run code of `target`.
  // Choices follow what `store` holds for this device, toolchain and family that was named.
  Context(std::shared_ptr<const Device> device, const targets::TargetInfo& target,
          tune::TuneStore store = tune::TuneStore({}), std::string toolchain = "",
          std::string family = "");
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Device& device() const { return *device_; }
  const std::shared_ptr<const Device>& shared_device() const { return device_; }
  const targets::DeviceProfile& profile() const { return profile_; }
  const targets::DeviceLimits& limits() const { return profile_.limits; }
  // Asks the driver how many clusters run at once, of a kernel that fills a multiprocessor's shared
  // memory; before any launch is prepared. Where the driver cannot say, the limits stay as they
  // are.
  void count_clusters(const std::shared_ptr<const jit::Binary>& binary, const std::string& entry);
  ChoiceRules rules() { return {profile_, &tuned_}; }
  TunedChoices& tuned() { return tuned_; }
  Modules& modules() { return modules_; }
  // Opened when first asked for. Throws UnavailableError when there is no cuBLASLt.
  VendorGemm& vendor();

 private:
  friend class Workspace;
  jit::CuDevicePtr captured_buffer(std::size_t bytes) const;
  std::shared_ptr<const Device> device_;
  const int smem_per_block_bytes_;
  targets::DeviceProfile profile_;
  TunedChoices tuned_;
  Modules modules_;
  // A pool of our own keeps its memory between runs; the device's would return it at every
  // synchronisation. Null where the device has no pools.
  jit::CuMemoryPool pool_ = nullptr;
  mutable std::mutex mutex_;  // of vendor_ and captured_
  std::unique_ptr<VendorGemm> vendor_;
  // What a captured run takes is taken from the pool when its graph runs. Without pools the graph
  // keeps a buffer of its own.
  mutable StreamBlocks blocks_;
  mutable std::vector<DeviceBuffer> captured_;
};

}  // namespace epifuse::cuda
