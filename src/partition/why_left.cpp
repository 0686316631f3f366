#include "partition/why_left.h"

#include <fmt/format.h>

#include "tune/framework_gemm.h"

namespace epifuse {

plan::WhyNot nothing_to_fuse(const std::string& product) {
  return {kNothingToFuse,
          fmt::format("There is no work on {} that pays to be done with it.", product)};
}

plan::WhyNot why_left_out(const std::string& value, bool saves_nothing) {
  if (saves_nothing) {
    return {"saves_nothing",
            fmt::format("Without {} the kernel and the rest move as few bytes as with it.", value)};
  }
  return {
      "stores_more",
      fmt::format("With {} the kernel and the rest would move more bytes than without it.", value)};
}

plan::WhyNot framework_is_faster(const codegen::GemmSizes& sizes, double ratio) {
  constexpr double kMostMeasured = 3;  // what is above it is what a call costs, at any size
  const auto why = [&] {
    if (ratio > kMostMeasured) {
      return std::string(
          "takes longer than the product and a loop behind it: so little work takes less time than "
          "the call of a kernel.");
    }
    if (ratio > 1) {
      return fmt::format("takes about {:.2f} times as long as the product and a loop behind it.",
                         ratio);
    }
    return fmt::format(
        "saves about {:.0f} % of the product and a loop behind it, and {:.0f} % "
        "are asked for, as measurements scatter.",
        100 * (1 - ratio), 100 * (1 - tune::kMostHostRatio));
  };
  return {"framework_is_faster",
          fmt::format("At {}x{}x{} a kernel {}", sizes.m, sizes.n, sizes.k, why())};
}

plan::WhyNot framework_sums_groups_faster() {
  return {"framework_is_faster",
          "On CPUs the framework's own sums over groups and a loop behind them took less time "
          "than a kernel at most sizes measured."};
}

plan::WhyNot framework_widens_faster() {
  return {"framework_is_faster",
          "Kernels for CPUs convert both operands to 32 bits before they multiply; the framework's "
          "own product takes the weights in 8 or 16."};
}

}  // namespace epifuse
