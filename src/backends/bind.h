// Matches the tensors of a call with the inputs, scalars and outputs of a graph.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "codegen/bound.h"
#include "epifuse/error.h"
#include "epifuse/program.h"
#include "ir/graph.h"

namespace epifuse::backends {

// The tensors of one call, checked: names, dtypes, ranks, sizes, strides, devices.
struct Matched {
  Sizes sizes;                          // of every symbol of the inputs and outputs
  std::vector<const Binding*> sources;  // by ValueId; null for what is no input or scalar
  std::vector<const Binding*> outputs;  // in order of Graph::outputs; null: not bound
};

enum class Outputs : std::uint8_t { required, optional };  // whether each must be bound

// Throws ArgumentError.
Matched match(const ir::Graph& graph, std::span<const Binding> tensors, DeviceKind device,
              Outputs outputs);

// Thrown where a tensor came with strides through which a view of it cannot be seen.
struct NeedsCopy : ArgumentError {
  NeedsCopy(const std::string& message, std::string tensor_)
      : ArgumentError(message), tensor(std::move(tensor_)) {}
  std::string tensor;  // its name in the plan
};

// Inputs and scalars by ValueId.
codegen::Bound bind_sources(const ir::Graph& graph, const Matched& matched);

}  // namespace epifuse::backends
