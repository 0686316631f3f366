// The constants of a family's model of time by name, as profiles of devices have them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "codegen/family.h"

namespace epifuse::codegen {

// One of a family's constants. Fitted are those that a few points tell apart.
struct ModelField {
  std::string_view name;
  double* value;
  bool is_fitted = false;
};

// Of all families, those that were measured on the device: in most cases none.
std::span<const targets::ModelConstant> measured_constants(const targets::DeviceProfile& device);

// Sets those of the family that `by` has.
void replace(std::span<const ModelField> fields, std::string_view family,
             std::span<const targets::ModelConstant> by);

std::vector<NamedConstant> named(std::span<const ModelField> fields);

}  // namespace epifuse::codegen
