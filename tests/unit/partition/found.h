// What frameworks are told to fuse, as text.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "epifuse/fusion.h"
#include "ir/text.h"

namespace epifuse {

inline const Target kHopper{DeviceKind::cuda, "sm_90a"};

inline std::string show(const FusionTensor& tensor) {
  return tensor.shape ? tensor.value + ir::print(*tensor.shape) : tensor.value;
}

// One line a kernel, "name(inputs) -> outputs: values", one a value left out, "value: code".
inline std::string found(const std::string& text, const FusionRequest& request = {},
                         const Target& target = Target::cpu(), const CompileOptions& options = {}) {
  const Fusions fusions = find_fusions(Graph::parse(text), target, options, request);
  std::string out;
  for (const FusedKernel& kernel : fusions.kernels) {
    std::vector<std::string> inputs, outputs;
    for (const FusionTensor& tensor : kernel.inputs) inputs.push_back(show(tensor));
    for (const FusionTensor& tensor : kernel.outputs) outputs.push_back(show(tensor));
    out += fmt::format("{}({}) -> {}: {}\n", kernel.name, fmt::join(inputs, ", "),
                       fmt::join(outputs, ", "), fmt::join(kernel.values, " "));
  }
  for (const LeftOutValue& value : fusions.left_out) {
    out += fmt::format("{}: {}\n", value.value, value.code);
  }
  return out;
}

}  // namespace epifuse
