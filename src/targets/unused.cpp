// Data-centre Blackwell multiplies by tcgen05, which has no family of kernels yet.
#include "targets/unused.h"

#include <fmt/format.h>

namespace epifuse::targets {

std::string unused(const TargetInfo& target) {
  constexpr int kDataCentreBlackwell = 10;
  if (target.kind != DeviceKind::cuda || target.major != kDataCentreBlackwell) return "";
  return fmt::format(
      "Kernels for {} do not use its tcgen05 instructions yet, so products take "
      "longer than the vendor's.",
      target.name);
}

}  // namespace epifuse::targets
