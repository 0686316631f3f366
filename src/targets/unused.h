// What GPUs of a target have that no kernel of ours uses yet.
#pragma once

#include <string>

#include "targets/targets.h"

namespace epifuse::targets {

// One sentence; empty where nothing is left unused.
std::string unused(const TargetInfo& target);

}  // namespace epifuse::targets
