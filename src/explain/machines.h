// Machines by name, and the least time that work takes on them.
#pragma once

#include <span>
#include <string_view>

#include "epifuse/dtype.h"
#include "epifuse/tensor.h"

namespace epifuse {

// A row of machines.def.
struct Machine {
  std::string_view name;
  DeviceKind kind;
  double i8_flops_per_s, fp8_flops_per_s, bf16_flops_per_s, f32_flops_per_s, bytes_per_s;
  std::string_view description;
};
std::span<const Machine> all_machines();

// The machine of that name; of an empty name the first of the kind. Throws ArgumentError naming the
// choices when there is none.
const Machine& find_machine(std::string_view name, DeviceKind kind);

// Work and memory traffic overlap, so the longer of the two counts.
double seconds_at_limits(const Machine& machine, double flops, DType dtype, double bytes);

}  // namespace epifuse
