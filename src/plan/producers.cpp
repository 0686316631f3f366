// Moves elementwise work on operands into the steps that use its result.
//
// r = mul a, b  (a tail that stores r)          [step: load a, load b; r = mul a, b; y = add acc,
// r] y = add h, r  (a step that loads r)      ->
#include <algorithm>
#include <set>

#include "plan/access.h"
#include "plan/steps.h"

namespace epifuse::plan {
namespace {

using ir::Op;
using ir::ValueId;
using Hosts = std::vector<std::vector<ValueId>>;

// The state of one step while values are moved into it.
struct Room {
  LoadSet loads;
  int num_computes = 0, num_recomputed = 0;
};

class Absorber {
 public:
  explicit Absorber(Draft& draft);
  Hosts run();

 private:
  bool may_move(ValueId value) const;
  std::set<ValueId> targets(ValueId value) const;
  bool is_hosted(ValueId value, ValueId step) const;
  std::optional<Reason> why_not(ValueId value, const std::set<ValueId>& targets) const;
  std::optional<Reason> why_not_recomputed(ValueId value, const std::set<ValueId>& targets) const;
  Room with(ValueId value, ValueId step) const;
  int num_stores(ValueId step) const;
  bool stores_fit(const std::vector<ValueId>& values, const std::set<ValueId>& targets);
  void move(ValueId value, const std::set<ValueId>& targets);
  std::vector<ValueId> full_producers(ValueId step) const;
  Room with_operands(Room room, ValueId value, ValueId step) const;
  void absorb_together(ValueId step);
  const ir::Shape& space(ValueId step) const { return draft_.facts.space(step); }

  Draft& draft_;
  Hosts hosts_;
  std::vector<std::optional<Room>> rooms_;  // by step
};

Absorber::Absorber(Draft& draft)
    : draft_(draft), hosts_(draft.graph().nodes.size()), rooms_(draft.graph().nodes.size()) {
  for (ValueId step : draft.order.by_position()) {
    if (step < 0) continue;
    Room room{LoadSet(draft.graph(), draft.num_products(step), space(step)), 0, 0};
    for (ValueId value : draft.order.values(step)) {
      hosts_[index(value)] = {step};
      ++room.num_computes;
    }
    for (ValueId value : draft.order.values(step)) {
      for (ValueId operand : draft.facts.operands[index(value)]) {
        if (!is_hosted(draft.facts.producer(operand), step)) room.loads.add(operand);
      }
    }
    rooms_[index(step)] = std::move(room);
  }
}

bool Absorber::is_hosted(ValueId value, ValueId step) const {
  const std::vector<ValueId>& hosts = hosts_[index(value)];
  return std::find(hosts.begin(), hosts.end(), step) != hosts.end();
}

// Producers of producers follow, so the last values go first.
Hosts Absorber::run() {
  for (auto value = static_cast<ValueId>(hosts_.size()); value-- > 0;) {
    if (!may_move(value)) continue;
    const std::set<ValueId> steps = targets(value);
    if (steps.size() == 1 && is_hosted(value, *steps.begin())) continue;
    std::optional<Reason> reason = why_not(value, steps);
    if (!reason && !stores_fit({value}, steps)) reason = Reason::too_many_stores;
    if (reason) {
      const bool wanted = std::any_of(steps.begin(), steps.end(),
                                      [&](ValueId step) { return draft_.is_gemm(step); });
      if (wanted && !draft_.refused[index(value)]) draft_.refused[index(value)] = Refusal{*reason};
      continue;
    }
    move(value, steps);
  }
  for (const ValueId step : draft_.order.by_position()) {
    if (step >= 0 && draft_.is_gemm(step)) absorb_together(step);
  }
  return hosts_;
}

bool Absorber::may_move(ValueId value) const {
  return draft_.facts.is_live[index(value)] && ir::is_elementwise(draft_.graph()[value].op) &&
         !draft_.facts.needs_memory[index(value)] && !hosts_[index(value)].empty() &&
         !draft_.is_gemm(draft_.order.step_of(value));
}

std::set<ValueId> Absorber::targets(ValueId value) const {
  std::set<ValueId> steps;
  for (ValueId reader : draft_.facts.readers[index(value)]) {
    steps.insert(hosts_[index(reader)].begin(), hosts_[index(reader)].end());
  }
  return steps;
}

// The step with `value` computed in it.
Room Absorber::with(ValueId value, ValueId step) const {
  Room room = *rooms_[index(step)];
  if (is_hosted(value, step)) return room;
  room.loads.remove_all(value);
  for (ValueId operand : draft_.facts.operands[index(value)]) room.loads.add(operand);
  ++room.num_computes;
  if (draft_.graph()[value].type.shape != space(step)) ++room.num_recomputed;
  return room;
}

std::optional<Reason> Absorber::why_not(ValueId value, const std::set<ValueId>& steps) const {
  if (const auto reason = why_not_recomputed(value, steps)) return reason;
  for (ValueId step : steps) {
    const Room room = with(value, step);
    if (const auto reason = room.loads.exceeded(draft_.facts.limits)) return reason;
    if (room.num_computes > kMaxComputes) return Reason::too_long;
    if (room.num_recomputed > kMaxRecomputed) return Reason::recomputed_per_element;
  }
  return std::nullopt;
}

// Nothing is recomputed in the one step of the same shape; elsewhere only cheap work is, which
// reads no more full tensors than its result is.
std::optional<Reason> Absorber::why_not_recomputed(ValueId value,
                                                   const std::set<ValueId>& steps) const {
  const ir::Node& node = draft_.graph()[value];
  const bool is_full = node.type.shape == space(*steps.begin());
  if (steps.size() == 1 && is_full) return std::nullopt;
  if (!ir::info(node.op).cheap)
    return is_full ? Reason::shared_operand : Reason::recomputed_per_element;
  for (ValueId step : steps) {
    const LoadSet& loads = rooms_[index(step)]->loads;
    int num_tiles = 0;
    for (ValueId operand : draft_.facts.operands[index(value)]) {
      num_tiles += loads.access(operand) == Access::tile ? 1 : 0;
    }
    if (num_tiles > (loads.access(value) == Access::tile ? 1 : 0)) return Reason::shared_operand;
  }
  return std::nullopt;
}

// What a step stores of the values that it had at first; what has come into it is read there alone.
int Absorber::num_stores(ValueId step) const {
  int count = 0;
  for (const ValueId value : draft_.order.values(step)) {
    if (!is_hosted(value, step)) continue;
    const auto is_elsewhere = [&](ValueId reader) { return !is_hosted(reader, step); };
    const bool is_stored = draft_.facts.needs_memory[index(value)] ||
                           std::ranges::any_of(draft_.facts.readers[index(value)], is_elsewhere);
    if (is_stored && hosts_[index(value)].size() == 1) count += num_stores_of(draft_.facts, value);
  }
  return count;
}

// Whether the steps that compute what `values` read may store that, once others compute `values`.
bool Absorber::stores_fit(const std::vector<ValueId>& values, const std::set<ValueId>& targets) {
  std::vector<std::vector<ValueId>> before;
  std::set<ValueId> steps;
  for (const ValueId value : values) {
    before.push_back(hosts_[index(value)]);
    hosts_[index(value)].assign(targets.begin(), targets.end());
  }
  for (const ValueId value : values) {
    for (const ValueId operand : draft_.facts.operands[index(value)]) {
      const std::vector<ValueId>& hosts = hosts_[index(draft_.facts.producer(operand))];
      steps.insert(hosts.begin(), hosts.end());
    }
  }
  const bool fit = std::ranges::all_of(
      steps, [&](ValueId step) { return num_stores(step) <= draft_.facts.limits.gemm.stores; });
  for (std::size_t i = 0; i < values.size(); ++i) hosts_[index(values[i])] = before[i];
  return fit;
}

void Absorber::move(ValueId value, const std::set<ValueId>& steps) {
  for (ValueId step : steps) rooms_[index(step)] = with(value, step);
  const ValueId owner = draft_.order.step_of(value);
  if (steps.count(owner) == 0) {
    Room& room = *rooms_[index(owner)];
    for (ValueId operand : draft_.facts.operands[index(value)]) room.loads.remove(operand);
    --room.num_computes;
  }
  hosts_[index(value)].assign(steps.begin(), steps.end());
}

// What is read by the step alone, or by others of these; readers first.
std::vector<ValueId> Absorber::full_producers(ValueId step) const {
  const std::vector<ValueId> only_here{step};
  std::set<ValueId> open, found;
  const auto add_operands = [&](ValueId value) {
    for (const ValueId operand : draft_.facts.operands[index(value)]) {
      open.insert(draft_.facts.producer(operand));
    }
  };
  for (const ValueId value : draft_.order.values(step)) add_operands(value);
  while (!open.empty()) {
    const ValueId value = *open.rbegin();
    open.erase(value);
    if (hosts_[index(value)] == only_here) {
      add_operands(value);
      continue;
    }
    const std::vector<ValueId>& readers = draft_.facts.readers[index(value)];
    const bool is_read_here = std::all_of(readers.begin(), readers.end(), [&](ValueId reader) {
      return found.contains(reader) || hosts_[index(reader)] == only_here;
    });
    if (!may_move(value) || !is_read_here) continue;
    if (draft_.graph()[value].type.shape != space(step)) continue;
    found.insert(value);
    add_operands(value);
  }
  return {found.rbegin(), found.rend()};
}

// The step with `value` computed in it, whose operands may be elsewhere.
Room Absorber::with_operands(Room room, ValueId value, ValueId step) const {
  room.loads.remove_all(value);
  ++room.num_computes;
  if (draft_.graph()[value].type.shape != space(step)) ++room.num_recomputed;
  for (const ValueId operand : draft_.facts.operands[index(value)]) {
    if (!is_hosted(draft_.facts.producer(operand), step)) room.loads.add(operand);
  }
  return room;
}

// Several values that read the same few tensors may fit where one of them alone loads too many.
// What is computed in several steps comes with those that read it.
void Absorber::absorb_together(ValueId step) {
  const std::vector<ValueId> values = full_producers(step);
  if (values.empty()) return;
  Room room = *rooms_[index(step)];
  std::set<ValueId> open{values.begin(), values.end()}, shared;
  while (!open.empty()) {  // readers first
    const ValueId value = *open.rbegin();
    open.erase(value);
    const bool is_here = is_hosted(value, step);
    if (!is_here) room = with_operands(std::move(room), value, step);
    for (const ValueId operand : draft_.facts.operands[index(value)]) {
      const ValueId producer = draft_.facts.producer(operand);
      const bool is_shared = hosts_[index(producer)].size() > 1;
      if (is_shared && std::ranges::find(values, producer) == values.end()) {
        shared.insert(producer);
        open.insert(producer);
      }
    }
  }
  if (room.loads.exceeded(draft_.facts.limits) || room.num_computes > kMaxComputes ||
      room.num_recomputed > kMaxRecomputed || !stores_fit(values, {step})) {
    return;
  }
  for (const ValueId value : values) {
    move(value, {step});
    draft_.refused[index(value)].reset();
  }
  for (auto value = shared.rbegin(); value != shared.rend(); ++value) {
    const std::set<ValueId> steps = targets(*value);
    hosts_[index(*value)].assign(steps.begin(), steps.end());
  }
  rooms_[index(step)] = std::move(room);
}

}  // namespace

Hosts absorb_producers(Draft& draft) { return Absorber(draft).run(); }

}  // namespace epifuse::plan
