// Decides which values each step of a plan computes.
#include "plan/steps.h"

#include <algorithm>

#include "base/check.h"

namespace epifuse::plan {
namespace {

using ir::ValueId;
using Hosts = std::vector<std::vector<ValueId>>;

Hosts own_steps(const Draft& draft) {
  Hosts hosts(draft.graph().nodes.size());
  for (ValueId id = 0; id < static_cast<ValueId>(hosts.size()); ++id) {
    const ValueId step = draft.order.step_of(id);
    if (step >= 0) hosts[index(id)] = {step};
  }
  return hosts;
}

// Whether some step reads `value` without computing it.
bool is_stored(const Facts& facts, const Hosts& hosts, ValueId value) {
  if (facts.needs_memory[index(value)]) return true;
  const std::vector<ValueId>& own = hosts[index(value)];
  for (ValueId reader : facts.readers[index(value)]) {
    for (ValueId step : hosts[index(reader)]) {
      if (std::find(own.begin(), own.end(), step) == own.end()) return true;
    }
  }
  return false;
}

std::optional<Gate> gate_of(const Draft& draft, ValueId step) {
  const Gate* gate = draft.facts.gates.of(step);
  if (gate == nullptr) return std::nullopt;
  const bool has_both =
      gate->gating != Gating::separate || draft.order.step_of(gate->second) == gate->first;
  return has_both ? std::optional(*gate) : std::nullopt;
}

std::vector<StepDraft> collect(const Draft& draft, const Hosts& hosts) {
  std::vector<StepDraft> by_name(hosts.size());
  for (ValueId id = 0; id < static_cast<ValueId>(hosts.size()); ++id) {
    const std::vector<ValueId>& steps = hosts[index(id)];
    for (ValueId step : steps) by_name[index(step)].values.push_back(id);
    if (steps.empty() || !is_stored(draft.facts, hosts, id)) continue;
    EPIFUSE_CHECK(steps.size() == 1, "a value that is stored is computed once");
    by_name[index(steps[0])].stores.push_back(id);
  }
  std::vector<StepDraft> steps;
  for (ValueId step : draft.order.by_position()) {
    if (step < 0 || by_name[index(step)].values.empty()) continue;
    steps.push_back(std::move(by_name[index(step)]));
    if (draft.is_gemm(step)) steps.back().matmul = step;
    steps.back().gate = gate_of(draft, step);
    steps.back().space = draft.facts.space(step);
  }
  return steps;
}

}  // namespace

void grow_gemms(Draft& draft) {
  // The last matmul first: work on two results belongs to the later one, which can load the other.
  for (auto id = static_cast<ValueId>(draft.graph().nodes.size()); id-- > 0;) {
    if (!draft.facts.is_live[index(id)] || !draft.is_gemm(id) || draft.has_step[index(id)])
      continue;
    const Gate* gate = draft.facts.gates.of(id);
    Grower(draft, gate != nullptr ? gate->matmul : id).run();
  }
}

void grow_tails(Draft& draft) {
  const std::vector<ValueId>& order = draft.order.by_position();
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] >= 0 && !draft.has_step[index(order[i])]) Grower(draft, order[i]).run();
  }
}

Steps draft_steps(const Facts& facts, bool fuse) {
  Draft draft(facts);
  Hosts hosts;
  if (fuse) {
    grow_gemms(draft);
    grow_tails(draft);
    hosts = absorb_producers(draft);
  } else {
    hosts = own_steps(draft);
  }
  return {collect(draft, hosts), explain_left_out(draft, hosts, fuse)};
}

}  // namespace epifuse::plan
