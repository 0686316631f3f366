// Memory of its own for all tensors of a call, to measure on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backends/call_form.h"
#include "backends/cuda/driver/memory.h"

namespace epifuse::cuda {

// Bytes that tensors of such a form take; empty where one reaches to before its first element.
std::optional<std::size_t> scratch_bytes(const plan::Plan& plan, const backends::CallForm& form);

// Tensors of a form: inputs of random numbers, integers as the graph uses them. Lives until its
// stream's work is done.
class ScratchTensors {
 public:
  // Of a form that scratch_bytes has a number for. Queues copies on `stream`, and waits for them.
  ScratchTensors(const std::shared_ptr<const Device>& device, const plan::Plan& plan,
                 const backends::CallForm& form, jit::CuStream stream);
  const codegen::Bound& bound() const { return bound_; }
  codegen::CallValues values() const { return {bases_, scalars_}; }

  // Parts of the outputs, and whether those of two runs are alike: roundings may differ. All of an
  // output is NaN from poison() until it is written.
  using Samples = std::vector<std::vector<unsigned char>>;
  void poison(jit::CuStream stream);
  Samples samples(jit::CuStream stream) const;
  bool are_alike(const Samples& a, const Samples& b) const;

 private:
  struct Output {
    std::size_t buffer;
    DType dtype;
  };
  std::shared_ptr<const Device> device_;
  std::vector<Output> outputs_;
  std::vector<DeviceBuffer> buffers_;  // by number in the form
  std::vector<std::uintptr_t> bases_;
  std::vector<double> scalars_;
  codegen::Bound bound_;
};

}  // namespace epifuse::cuda
