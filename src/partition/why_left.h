// Why values and products stay with the framework, in words.
#pragma once

#include <string>

#include "codegen/gemm_sizes.h"
#include "plan/plan.h"

namespace epifuse {

inline constexpr const char* kNothingToFuse = "nothing_to_fuse";

plan::WhyNot nothing_to_fuse(const std::string& product);
// `saves_nothing`: with the value as many bytes move as without it; else more.
plan::WhyNot why_left_out(const std::string& value, bool saves_nothing);
// `ratio`: a kernel's time over that of the framework's product and a loop, as measured on CPUs.
plan::WhyNot framework_is_faster(const codegen::GemmSizes& sizes, double ratio);
plan::WhyNot framework_sums_groups_faster();
plan::WhyNot framework_widens_faster();

}  // namespace epifuse
