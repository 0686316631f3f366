// Matches the tensors of a call with the inputs, scalars and outputs of a graph.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codegen/kernel.h"
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

// Inputs and scalars by ValueId.
codegen::Bound bind_sources(const ir::Graph& graph, const Matched& matched);

}  // namespace epifuse::backends
