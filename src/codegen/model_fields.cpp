// The constants of a family's model of time by name.
#include "codegen/model_fields.h"

#include <algorithm>

namespace epifuse::codegen {

std::span<const targets::ModelConstant> measured_constants(const targets::DeviceProfile& device) {
  if (device.known == nullptr) return {};
  return device.known->measured->constants;
}

// A profile has them in the order of the fields, as it was printed: each is found at once.
void replace(std::span<const ModelField> fields, std::string_view family,
             std::span<const targets::ModelConstant> by) {
  auto next = fields.begin();
  for (const targets::ModelConstant& each : by) {
    if (each.family != family) continue;
    const auto is_it = [&](const ModelField& field) { return field.name == each.name; };
    auto found = std::find_if(next, fields.end(), is_it);
    if (found == fields.end()) found = std::find_if(fields.begin(), fields.end(), is_it);
    if (found == fields.end()) continue;  // of another version
    *found->value = each.value;
    next = found + 1;
  }
}

std::vector<NamedConstant> named(std::span<const ModelField> fields) {
  std::vector<NamedConstant> out;
  for (const ModelField& field : fields) {
    out.push_back({field.name, *field.value, field.is_fitted});
  }
  return out;
}

}  // namespace epifuse::codegen
