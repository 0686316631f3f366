// Machines by name, and the least time that work takes on them.
#include "explain/machines.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "epifuse/error.h"

namespace epifuse {
namespace {

constexpr Machine kMachines[] = {
#define EPIFUSE_MACHINE(name, kind, i8, fp8, bf16, f32, bytes, description) \
  {name, kind, i8, fp8, bf16, f32, bytes, description},
#include "explain/machines.def"
#undef EPIFUSE_MACHINE
};

}  // namespace

std::span<const Machine> all_machines() { return kMachines; }

const Machine& find_machine(std::string_view name, DeviceKind kind) {
  std::string choices;
  for (const Machine& machine : kMachines) {
    if (name.empty() ? machine.kind == kind : machine.name == name) return machine;
    choices += fmt::format("{}{}", choices.empty() ? "" : ", ", machine.name);
  }
  throw ArgumentError(fmt::format("no machine is called '{}'; known are {}", name, choices));
}

double seconds_at_limits(const Machine& machine, double flops, DType dtype, double bytes) {
  const double rate = dtype == DType::f32  ? machine.f32_flops_per_s
                      : dtype == DType::i8 ? machine.i8_flops_per_s
                      : is_fp8(dtype)      ? machine.fp8_flops_per_s
                                           : machine.bf16_flops_per_s;
  return std::max(flops / rate, bytes / machine.bytes_per_s);
}

}  // namespace epifuse
