// A profile from what `epifuse bench --sweep` measured on a device; needs no GPU.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "calibrate_fit.h"
#include "targets/targets.h"

namespace epifuse::cli {

struct SweptProfile {
  targets::StoredProfile profile;  // with constants that are fitted to all points
  // Over all points, of the model as it was, and of two that are fitted to half of the points each
  // and judged on the other half.
  ModelError before, after;
};

// `files` hold rows of one device, which has a profile or a row of devices.def: what is not fitted
// stays. Misaligned points are left out, as the model does not know them. Throws ArgumentError:
// what is expected of a file, what came.
SweptProfile calibrate_from(const std::vector<std::filesystem::path>& files,
                            const targets::TargetInfo& target);

}  // namespace epifuse::cli
