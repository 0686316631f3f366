// The generated sources of a plan, named as files.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/prepare/prepare.h"

namespace epifuse::cuda {

struct NamedSource {
  std::string file;  // "ffn_down_0_FAMILY_ping_pong_128x192_4_stages.cu"
  codegen::KernelSource source;
};

// Every kernel of the plan, in plan order.
std::vector<NamedSource> all_sources(const Prepared& prepared);

// One kernel for each launch of a run on dense tensors of these sizes: of a family's step the one
// that its model of time chooses on the device. What is weighed beside that is left out: measured
// choices, the vendor's product and a tail, copies of operands, other families and steps side by
// side. Symbols without a size are 4096. Throws ArgumentError for sizes that fit no tensors.
std::vector<NamedSource> chosen_sources(const Prepared& prepared, const Sizes& sizes,
                                        const targets::TargetInfo& target,
                                        const targets::DeviceProfile& device);

}  // namespace epifuse::cuda
