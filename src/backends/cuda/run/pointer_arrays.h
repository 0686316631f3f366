// Many problems of one plan on a GPU: one launch of the family's kernel, where the plan is one
// product, between one that describes the problems and one for those that it cannot take.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/driver/context.h"
#include "backends/cuda/prepare/prepare.h"
#include "codegen/pointer_arrays.h"
#include "jit/jit.h"

namespace epifuse::cuda {

// Arrays of problems, copied to where the host reads them.
class HostPointerArrays {
 public:
  // Waits for the stream. Throws UnavailableError while it is being captured.
  HostPointerArrays(const Device& device, const codegen::BoundPointerArrays& problems,
                    jit::CuStream stream);
  const codegen::BoundPointerArrays& arrays() const { return arrays_; }

 private:
  const void* copy(const Device& device, const void* from, std::size_t bytes, jit::CuStream stream);
  codegen::BoundPointerArrays arrays_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

// The kernels are compiled when problems first come. Thread-safe.
class PointerArrayRunner {
 public:
  PointerArrayRunner(const Prepared& prepared, const targets::TargetInfo& target,
                     std::shared_ptr<jit::Jit> jit);

  // Why problems of the plan are no one launch.
  const std::optional<plan::WhyNot>& why_not() const { return why_not_; }
  // Whose kernels they are; only without a why_not.
  std::string_view family() const { return prepared_.steps.front().family->name; }
  // Of the launches, in order: names of files, and texts; of the kernel for sizes that are not
  // known.
  std::vector<std::pair<std::string, std::string>> sources() const;
  // Queues the three launches; only without a why_not.
  void run(Context& context, const codegen::BoundPointerArrays& problems,
           jit::CuStream stream) const;

 private:
  // For one config; `binary` and `usual` once they are compiled.
  struct Kernels {
    Kernel describe, product, by_hand;
    codegen::Launch usual;  // of the product, on tensors of typical sizes, with its maps encoded
  };
  const codegen::PointerArrayFunctions& functions() const;  // only without a why_not
  const plan::FusedGemm& step() const;
  codegen::GemmSizes sizes_of(const codegen::BoundPointerArrays& problems) const;
  std::shared_ptr<const Kernels> kernels_for(Context& context,
                                             const codegen::GemmSizes& sizes) const;
  Kernels kernels_of(const codegen::GemmConfig& config) const;
  std::shared_ptr<const Kernels> compiled(
      Context& context, const std::function<std::vector<std::size_t>()>& choose) const;

  const std::optional<Prepared> without_copies_;  // of a plan that reads copies along K
  const Prepared& prepared_;
  const targets::TargetInfo& target_;
  std::shared_ptr<jit::Jit> jit_;
  std::optional<plan::WhyNot> why_not_;
  codegen::Bound typical_;        // a problem of typical sizes, at no real addresses
  codegen::GemmVariant variant_;  // that it asks for
  mutable std::mutex mutex_;
  mutable std::vector<codegen::GemmConfig> configs_;  // those that compile well, as far as known
  mutable std::vector<std::shared_ptr<const Kernels>> kernels_;
};

}  // namespace epifuse::cuda
