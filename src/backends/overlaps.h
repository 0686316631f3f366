// Outputs that share memory with other tensors of a call.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "codegen/bound.h"
#include "plan/plan.h"

namespace epifuse::backends {

// Whether an output may be an input itself (include/epifuse/program.h says when).
enum class InPlace : std::uint8_t { allowed, refused };

// Throws ArgumentError naming both tensors where an output shares memory with an input or another
// output. Takes n log n time for n tensors that lie apart.
void check_overlaps(const plan::Plan& plan, const codegen::Bound& bound, InPlace in_place);

// The same for problems that run as if at once: nor may an output lie in a tensor of another one.
void check_overlaps(const plan::Plan& plan,
                    std::span<const std::shared_ptr<const codegen::Bound>> problems);

}  // namespace epifuse::backends
