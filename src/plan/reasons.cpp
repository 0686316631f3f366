// The reasons why a value is left out of the matmul kernels: the rows of reasons.def.
#include "plan/reasons.h"

#include <fmt/format.h>

namespace epifuse::plan {
namespace {

constexpr ReasonInfo kReasons[] = {
#define EPIFUSE_REASON(code, sentence, most) \
  {#code, sentence, []([[maybe_unused]] const targets::StepLimits& limits) { return most; }},
#include "plan/reasons.def"
#undef EPIFUSE_REASON
};

}  // namespace

std::span<const ReasonInfo> all_reasons() { return kReasons; }

WhyNot why_not(const ir::Graph& graph, ir::ValueId value, const Refusal& refusal,
               const targets::StepLimits& limits) {
  const ReasonInfo& info = kReasons[static_cast<std::size_t>(refusal.reason)];
  const std::string_view other =
      refusal.other < 0 ? "" : std::string_view(graph[refusal.other].name);
  return {std::string(info.code),
          fmt::format(fmt::runtime(info.sentence), fmt::arg("value", graph[value].name),
                      fmt::arg("other", other), fmt::arg("limit", info.limit(limits)))};
}

}  // namespace epifuse::plan
