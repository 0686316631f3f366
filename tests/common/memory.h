// Where a tier's tensors live while a program runs on them.
#pragma once

#include "tests/common/host_tensor.h"

namespace epifuse::testing {

class Memory {
 public:
  virtual ~Memory() = default;
  // The tensor as the program's device sees it, with the bytes it has now.
  virtual TensorView place(HostTensor& tensor) = 0;
  // Bytes as the program's device reads them.
  virtual const void* place_bytes(const void* bytes, std::size_t size) = 0;
  // Brings back what the device wrote; waits for it.
  virtual void fetch(HostTensor& tensor, const TensorView& placed) = 0;
  // Frees everything that was placed.
  virtual void clear() = 0;
};

class HostMemory : public Memory {
 public:
  TensorView place(HostTensor& tensor) override { return tensor.view(); }
  const void* place_bytes(const void* bytes, std::size_t) override { return bytes; }
  void fetch(HostTensor&, const TensorView&) override {}
  void clear() override {}
};

}  // namespace epifuse::testing
