// Says why each value that no matmul's step computes was left out.
#include <algorithm>

#include "plan/steps.h"

namespace epifuse::plan {
namespace {

using ir::ValueId;
using Hosts = std::vector<std::vector<ValueId>>;

class Explainer {
 public:
  Explainer(const Draft& draft, const Hosts& hosts);
  Refusal refusal(ValueId value) const;
  bool is_left_out(ValueId value) const { return is_left_out_[index(value)]; }

 private:
  void find_operands();
  std::optional<ValueId> origin_in(ValueId value, bool left_out) const;

  const Draft& draft_;
  std::vector<bool> is_left_out_;
  std::vector<bool> from_matmul_;  // depends on a matmul's result
  std::vector<bool> to_matmul_;    // goes into a matmul, maybe through others that are left out
};

Explainer::Explainer(const Draft& draft, const Hosts& hosts)
    : draft_(draft),
      is_left_out_(hosts.size()),
      from_matmul_(hosts.size()),
      to_matmul_(hosts.size()) {
  for (ValueId id = 0; id < static_cast<ValueId>(hosts.size()); ++id) {
    const ir::Node& node = draft.graph()[id];
    from_matmul_[index(id)] =
        ir::is_matmul(node.op) || std::any_of(node.args.begin(), node.args.end(), [&](ValueId arg) {
          return static_cast<bool>(from_matmul_[index(arg)]);
        });
    const std::vector<ValueId>& steps = hosts[index(id)];
    is_left_out_[index(id)] =
        !steps.empty() &&
        std::none_of(steps.begin(), steps.end(), [&](ValueId step) { return draft.is_gemm(step); });
  }
  find_operands();
}

void Explainer::find_operands() {
  for (auto id = static_cast<ValueId>(to_matmul_.size()); id-- > 0;) {
    const std::vector<ValueId>& all = draft_.facts.dependents[index(id)];
    to_matmul_[index(id)] =
        is_left_out(id) && std::any_of(all.begin(), all.end(), [&](ValueId dependent) {
          return draft_.is_gemm(dependent) || to_matmul_[index(dependent)];
        });
  }
}

// A computed value that `value` reads and that is left out, or not.
std::optional<ValueId> Explainer::origin_in(ValueId value, bool left_out) const {
  for (ValueId arg : draft_.graph()[value].args) {
    const ValueId origin = draft_.facts.storage[index(arg)];
    if (draft_.facts.computed(origin) && from_matmul_[index(origin)] &&
        is_left_out(origin) == left_out) {
      return origin;
    }
  }
  return std::nullopt;
}

Refusal Explainer::refusal(ValueId value) const {
  if (draft_.refused[index(value)]) return *draft_.refused[index(value)];
  if (!from_matmul_[index(value)]) {
    return {to_matmul_[index(value)] ? Reason::prologue_not_fused : Reason::no_matmul};
  }
  if (const auto origin = origin_in(value, true)) return {Reason::operand_left_out, *origin};
  return {Reason::view_of_result, origin_in(value, false).value_or(-1)};
}

}  // namespace

std::vector<LeftOut> explain_left_out(const Draft& draft, const Hosts& hosts, bool fuse) {
  const Explainer explainer(draft, hosts);
  std::vector<LeftOut> result;
  for (ValueId id = 0; id < static_cast<ValueId>(hosts.size()); ++id) {
    if (!explainer.is_left_out(id)) continue;
    const Refusal refusal = fuse ? explainer.refusal(id) : Refusal{Reason::fusion_off};
    result.push_back({id, why_not(draft.graph(), id, refusal, draft.facts.limits)});
  }
  return result;
}

}  // namespace epifuse::plan
