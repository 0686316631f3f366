// The reasons why a value is left out of the matmul kernels: the rows of reasons.def.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "plan/limits.h"
#include "plan/plan.h"

namespace epifuse::plan {

enum class Reason : std::uint8_t {
#define EPIFUSE_REASON(code, sentence, limit) code,
#include "plan/reasons.def"
#undef EPIFUSE_REASON
};

struct ReasonInfo {
  std::string_view code, sentence;
  int (*limit)(const targets::StepLimits&);
};
std::span<const ReasonInfo> all_reasons();

// A "no" before it is put into words.
struct Refusal {
  Reason reason;
  ir::ValueId other = -1;
};
WhyNot why_not(const ir::Graph& graph, ir::ValueId value, const Refusal& refusal,
               const targets::StepLimits& limits);

}  // namespace epifuse::plan
