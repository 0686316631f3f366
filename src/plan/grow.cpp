// Grows one step from its first value through the values computed from it.
#include "plan/grow.h"

#include <algorithm>

#include "plan/access.h"

namespace epifuse::plan {
namespace {

using ir::Op;
using ir::ValueId;

// How many values are tried beyond the last legal place to stop: branches that join again.
constexpr std::size_t kMaxLookahead = 32;
// Values read by more than this many are not followed to their other readers.
constexpr std::size_t kMaxSiblings = 32;

bool reduces_rows(Op op) { return op == Op::row_sum || op == Op::row_max; }

// What is stored and not read again in its step.
bool ends_step(Op op) { return ir::is_join(op) || op == Op::put_rows || op == Op::block_first; }

}  // namespace

void StoreCount::join(ValueId value) {
  const std::vector<ValueId>& readers = facts_.readers[index(value)];
  num_readers_left_[value] = readers.size();
  if (facts_.needs_memory[index(value)] || !readers.empty())
    num_stores_ += num_stores_of(facts_, value);
  std::set<ValueId> producers;  // each once, also of two halves of a gate's columns
  for (ValueId operand : facts_.operands[index(value)]) producers.insert(facts_.producer(operand));
  for (ValueId producer : producers) {
    const auto left = num_readers_left_.find(producer);
    if (left == num_readers_left_.end() || --left->second > 0) continue;
    if (!facts_.needs_memory[index(producer)]) num_stores_ -= num_stores_of(facts_, producer);
  }
}

int num_stores_of(const Facts& facts, ValueId value) {
  const Gate* gate = facts.gates.of(value);
  const bool has_halves = gate != nullptr && gate->gating != Gating::separate;
  return has_halves || ir::is_join(facts.graph[value].op) ? 2 : 1;
}

Grower::Grower(Draft& draft, ValueId seed)
    : draft_(draft),
      facts_(draft.facts),
      seed_(seed),
      is_gemm_(draft.is_gemm(seed)),
      is_grouped_(ir::is_grouped_matmul(draft.graph()[seed].op) ||
                  draft.graph()[seed].op == Op::k_grouped_matmul),
      space_(draft.facts.space(seed)),
      loads_(draft.graph(), draft.num_products(seed), space_),
      stores_(draft.facts) {}

void Grower::run() {
  join(seed_);
  if (const Gate* gate = facts_.gates.of(seed_); gate != nullptr && is_partner(gate->second)) {
    push(gate->second, true);
  }
  while (!candidates_.empty() && joined_.size() < legal_size_ + kMaxLookahead &&
         num_visits_ < kMaxVisits) {
    const ValueId step = queue_.begin()->second;
    queue_.erase(queue_.begin());
    visit(step);
  }
  if (num_visits_ == kMaxVisits) {
    for (ValueId value : candidates_) refuse(value, {Reason::too_far});
  }
  keep_legal_prefix();
  drop_wide_results();
  commit();
}

void Grower::visit(ValueId step) {
  ++num_visits_;
  if (candidates_.erase(step) == 0) return postpone(step);
  if (const std::optional<Refusal> refusal = why_not(step)) {
    refuse(step, *refusal);
    return postpone(step);
  }
  join(step);
}

// Only what a matmul's step refuses is worth an explanation, and the first reason is kept.
void Grower::refuse(ValueId value, const Refusal& refusal) {
  if (is_gemm_ && !draft_.refused[index(value)]) draft_.refused[index(value)] = refusal;
}

void Grower::join(ValueId value) {
  num_visits_ = 0;
  joined_.push_back(value);
  joined_set_.insert(value);
  note_block(value);
  loads_ = loads_with(value);
  stores_.join(value);
  if (stores_.num_stores() <= facts_.limits.gemm.stores) legal_size_ = joined_.size();
  for (ValueId dependent : facts_.dependents[index(value)]) {
    push(dependent, facts_.reads(dependent, value));
  }
  push_siblings(value);
}

void Grower::note_block(ValueId value) {
  if (draft_.graph()[value].op == Op::block_max) block_of_[value] = value;
  for (ValueId operand : facts_.operands[index(value)]) {
    const auto block = block_of_.find(facts_.producer(operand));
    if (block != block_of_.end()) block_of_.try_emplace(value, block->second);
  }
}

void Grower::postpone(ValueId step) {
  const bool depends = [&] {  // a sibling that was refused need not come later
    for (ValueId value : draft_.order.values(step)) {
      for (ValueId arg : draft_.graph()[value].args) {
        const ValueId origin = facts_.storage[index(arg)];
        if (in_step(origin)) return true;
        if (facts_.computed(origin) && later_set_.count(draft_.order.step_of(origin))) return true;
      }
    }
    return false;
  }();
  if (!depends) return;
  later_[draft_.order.position(step)] = step;
  later_set_.insert(step);
  for (ValueId value : draft_.order.values(step)) {
    for (ValueId dependent : facts_.dependents[index(value)]) push(dependent, false);
  }
}

void Grower::push(ValueId value, bool as_candidate) {
  const ValueId step = draft_.order.step_of(value);
  if (in_step(value) || later_set_.count(step)) return;
  queue_.insert({draft_.order.position(step), step});
  if (as_candidate && is_candidate(value)) candidates_.insert(step);
}

// Other steps over the same elements of a full tensor can share the reading of it. Of these a
// product's step takes sums alone: other work on what it reads has nothing to do with the product.
void Grower::push_siblings(ValueId value) {
  const bool is_product = draft_.is_gemm(value);
  for (ValueId operand : is_product ? draft_.graph()[value].args : facts_.operands[index(value)]) {
    const std::vector<ValueId>& readers = facts_.readers[index(operand)];
    if (is_at_hand(operand) || readers.size() > kMaxSiblings) continue;
    if (draft_.graph()[operand].type.shape != space_) continue;
    for (ValueId reader : readers) {
      const ValueId step = draft_.order.step_of(reader);
      // Only forward, so that everything before it has been visited.
      if (draft_.order.position(step) <= draft_.order.position(value)) continue;
      if (is_gemm_ && !ir::is_reduction(draft_.graph()[reader].op)) continue;
      if (facts_.space(reader) == space_) push(reader, true);
    }
  }
}

bool Grower::is_candidate(ValueId value) const {
  const Op op = draft_.graph()[value].op;
  if (draft_.has_step[index(value)]) return false;
  return ir::is_elementwise(op) || ir::is_reduction(op) || ir::is_block(op) || ends_step(op) ||
         is_partner(value);
}

// The second product of a gate that this step computes.
bool Grower::is_partner(ValueId value) const {
  const Gate* gate = facts_.gates.of(value);
  return gate != nullptr && gate->gating == Gating::separate && gate->first == seed_ &&
         gate->second == value;
}

// Whether an op is no reduction, or one of rows of groups that lie one behind the other.
bool Grower::reduces_groups(Op op) const {
  const bool is_of_rows = op == Op::row_sum || op == Op::row_max;
  const bool are_rows = ir::is_grouped_matmul(draft_.graph()[seed_].op) && space_.size() == 2;
  return !ir::is_reduction(op) || (is_of_rows && are_rows && facts_.limits.reduces_rows_of_groups);
}

std::optional<Refusal> Grower::why_not(ValueId value) const {
  if (const auto refusal = why_not_operands(value)) return refusal;
  if (facts_.space(value) != space_) return Refusal{Reason::shape_differs};
  const ir::Node& node = draft_.graph()[value];
  if (is_grouped_ && (!reduces_groups(node.op) || node.block_rows != 1)) {
    return Refusal{Reason::reduction_of_groups};
  }
  if (const auto other = other_rows(value)) return Refusal{Reason::other_block_rows, *other};
  if (const auto other = other_direction(value)) return Refusal{Reason::other_direction, *other};
  if (const auto other = beside_blocks(value)) return Refusal{Reason::beside_blocks, *other};
  if (joined_.size() >= static_cast<std::size_t>(kMaxComputes)) return Refusal{Reason::too_long};
  if (const auto reason = loads_with(value).exceeded(facts_.limits)) return Refusal{*reason};
  return std::nullopt;
}

std::optional<Refusal> Grower::why_not_operands(ValueId value) const {
  for (ValueId operand : facts_.operands[index(value)]) {
    const ValueId origin = facts_.storage[index(operand)];
    if (!facts_.computed(origin)) continue;
    const bool is_view = facts_.producer(operand) != origin;
    if (in_step(origin) && is_view) return Refusal{Reason::view_of_result, origin};
    const Op op = draft_.graph()[origin].op;
    if (in_step(origin) && (ir::is_reduction(op) || ends_step(op))) {
      return Refusal{Reason::depends_on_later_step, origin};
    }
    if (!in_step(origin) && later_set_.count(draft_.order.step_of(origin))) {
      return Refusal{Reason::depends_on_later_step, origin};
    }
  }
  return std::nullopt;
}

// A reduction in the step along the other dim than `value`: one tail reduces along one, and what a
// product does must fit a tail (see split).
std::optional<ValueId> Grower::other_direction(ValueId value) const {
  const Op op = draft_.graph()[value].op;
  if (!ir::is_reduction(op)) return std::nullopt;
  const auto other = std::find_if(joined_.begin(), joined_.end(), [&](ValueId joined) {
    const Op joined_op = draft_.graph()[joined].op;
    return ir::is_reduction(joined_op) && reduces_rows(joined_op) != reduces_rows(op);
  });
  return other == joined_.end() ? std::nullopt : std::optional(*other);
}

// A step goes over a block's elements twice: for its maximum, then for the results. So no maximum
// depends on another, and nothing else is reduced.
std::optional<ValueId> Grower::beside_blocks(ValueId value) const {
  const Op op = draft_.graph()[value].op;
  if (op == Op::block_max) {
    for (ValueId operand : facts_.operands[index(value)]) {
      const auto block = block_of_.find(facts_.producer(operand));
      if (block != block_of_.end()) return block->second;
    }
  }
  if (!ir::is_reduction(op) && !ir::is_block(op)) return std::nullopt;
  const auto other = std::find_if(joined_.begin(), joined_.end(), [&](ValueId joined) {
    const Op joined_op = draft_.graph()[joined].op;
    return ir::is_reduction(op) ? ir::is_block(joined_op) : ir::is_reduction(joined_op);
  });
  return other == joined_.end() ? std::nullopt : std::optional(*other);
}

// A block op in the step whose blocks have other rows.
std::optional<ValueId> Grower::other_rows(ValueId value) const {
  const ir::Node& node = draft_.graph()[value];
  if (!ir::is_block(node.op)) return std::nullopt;
  const auto other = std::find_if(joined_.begin(), joined_.end(), [&](ValueId joined) {
    const ir::Node& of = draft_.graph()[joined];
    return ir::is_block(of.op) && of.block_rows != node.block_rows;
  });
  return other == joined_.end() ? std::nullopt : std::optional(*other);
}

LoadSet Grower::loads_with(ValueId value) const {
  LoadSet loads = loads_;
  for (ValueId operand : facts_.operands[index(value)]) {
    if (!is_at_hand(operand)) loads.add(operand);
  }
  return loads;
}

void Grower::keep_legal_prefix() {
  for (std::size_t i = legal_size_; i < joined_.size(); ++i) {
    refuse(joined_[i], {Reason::too_many_stores});
  }
  joined_.resize(legal_size_);
}

// What is read elsewhere and only widens a value of the step: it takes more bytes than that value.
// It comes right after the step then.
void Grower::drop_wide_results() {
  const auto is_dropped = [&](ValueId value) {
    if (value == seed_ || facts_.needs_memory[index(value)]) return false;
    if (!widens(draft_.graph(), value)) return false;
    const std::vector<ValueId>& readers = facts_.readers[index(value)];
    return !readers.empty() && std::ranges::none_of(readers, [&](ValueId reader) {
      return std::ranges::find(joined_, reader) != joined_.end();
    });
  };
  for (auto at = joined_.end(); at != joined_.begin();) {
    if (!is_dropped(*--at)) continue;
    refuse(*at, {Reason::wider_result, draft_.graph()[*at].args[0]});
    later_[draft_.order.position(*at)] = *at;
    at = joined_.erase(at);
  }
}

void Grower::commit() {
  for (ValueId value : joined_) draft_.has_step[index(value)] = true;
  const std::size_t last = draft_.order.position(joined_.back());
  std::vector<ValueId> later;
  for (const auto& [position, step] : later_) {
    if (position < last) later.push_back(step);
  }
  joined_.erase(joined_.begin());
  draft_.order.merge(seed_, joined_, later);
}

}  // namespace epifuse::plan
