// Reads what ptxas wrote into NVRTC's log.
#pragma once

#include "jit/jit.h"

namespace epifuse::jit {

// Fills registers, spill_bytes, stack_bytes and problems of `binary` from `binary.log`: the largest
// register count and the sums over all functions of the log.
void read_log(Binary& binary);

}  // namespace epifuse::jit
