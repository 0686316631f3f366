// The constants of a family's model of time by name, as profiles of devices have them.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "codegen/family.h"

namespace epifuse::codegen {

// A member of a family's constants, all of them doubles. Fitted are those that a few points tell
// apart.
template <class Constants>
struct ModelField {
  std::string_view name;
  double Constants::*member;
  bool is_fitted = false;
};

// Those of the family that `by` has. A profile has them in the order of the fields, as it was
// printed: each is found at once.
template <class Constants>
void replace(Constants& constants, std::span<const ModelField<Constants>> fields,
             std::string_view family, std::span<const targets::ModelConstant> by) {
  auto next = fields.begin();
  for (const targets::ModelConstant& each : by) {
    if (each.family != family) continue;
    const auto is_it = [&](const ModelField<Constants>& field) { return field.name == each.name; };
    auto found = std::find_if(next, fields.end(), is_it);
    if (found == fields.end()) found = std::find_if(fields.begin(), fields.end(), is_it);
    if (found == fields.end()) continue;  // of another version
    constants.*found->member = each.value;
    next = found + 1;
  }
}

template <class Constants>
std::vector<NamedConstant> named(const Constants& constants,
                                 std::span<const ModelField<Constants>> fields) {
  std::vector<NamedConstant> out;
  for (const ModelField<Constants>& field : fields) {
    out.push_back({field.name, constants.*field.member, field.is_fitted});
  }
  return out;
}

}  // namespace epifuse::codegen
