// What a call of a plan is prepared for: all of it but where its tensors are.
#pragma once

#include <cstddef>
#include <vector>

#include "codegen/bound.h"
#include "codegen/patches.h"
#include "plan/plan.h"

namespace epifuse::backends {

// Calls of one form differ in addresses and scalars alone: sizes, strides, and the addresses'
// remainders by codegen::kAddressUnit are the same.
struct CallForm {
  codegen::Bound bound;              // on placeholders
  std::vector<ir::ValueId> tensors;  // by number: the inputs, then the outputs, as in the graph
  std::vector<ir::ValueId> scalars;  // by number
};

// Of the call that `bound` (of bind) is for.
CallForm form_of(const plan::Plan& plan, const codegen::Bound& bound);

// Part of what a form is told by; a tensor that is nowhere is like no other.
inline std::uintptr_t remainder_of(const void* address) {
  return address == nullptr ? codegen::kAddressUnit
                            : reinterpret_cast<std::uintptr_t>(address) % codegen::kAddressUnit;
}
// Of codegen::CallValues.
inline std::uintptr_t base_of(const void* address) {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  return value - value % codegen::kAddressUnit;
}

// Puts a call's values in the place of the placeholders of `form`, in a copy of it.
void set_values(const codegen::Bound& form, const CallForm& numbers,
                const codegen::CallValues& values, codegen::Bound& copy);

}  // namespace epifuse::backends
