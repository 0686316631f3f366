// The constants of the cp.async + mma.sync GEMM's model of time (model.cpp), by device.
#pragma once

#include <vector>

#include "codegen/family.h"
#include "targets/device_profile.h"

namespace epifuse::codegen::sm80 {

// In clocks of an SM where a name says no other unit.
struct ModelConstants {
  double clocks_per_us;
  double multiplies_per_clock, shared_bytes_per_clock, l2_bytes_per_clock;  // of an SM
  double first_clocks;             // until a tile's first stage is there
  double latency_clocks;           // from asking for a stage until it is there, under load
  double step_clocks;              // in which nothing multiplies, around a step's barrier ..
  double alone_clocks;             // .. where the SM has no other CTA
  double deep_slows;               // steps of 128 bytes, whose copies come in larger bursts, there
  double tile_clocks;              // of an epilogue: once,
  double element_clocks;           // an element of a result or a full operand,
  double operation_clocks;         // and an operation on it
  double launch_us, bytes_per_us;  // of a kernel, of memory
  double l2_bytes;
  double join_clocks, clear_us;  // of a tile whose K is split, and of the zeros before
  double persistent_slows;       // CTAs that take one tile after another
  // Of a copy of fewer than 16 bytes, which CTAs make one after another: of 4 or 8, or of elements.
  double part_clocks, element_copy_clocks;
};

// The row of the device. Without one, constants of the kernels with the rates that the driver and
// the architecture give. Those that a profile itself has go before both.
ModelConstants constants_of(const targets::DeviceProfile& device);

// The same by name, each once.
std::vector<NamedConstant> named_constants(const targets::DeviceProfile& device);

}  // namespace epifuse::codegen::sm80
