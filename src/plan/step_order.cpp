// The steps of a plan under construction, in an order in which each comes after all it reads.
#include "plan/step_order.h"

#include <algorithm>

#include "base/check.h"

namespace epifuse::plan {

using ir::ValueId;

StepOrder::StepOrder(const Facts& facts)
    : step_of_(facts.graph.nodes.size(), -1),
      values_(facts.graph.nodes.size()),
      position_(facts.graph.nodes.size()) {
  for (ValueId id = 0; id < static_cast<ValueId>(facts.graph.nodes.size()); ++id) {
    if (!facts.is_live[index(id)] || !facts.computed(id)) continue;
    step_of_[index(id)] = id;
    values_[index(id)] = {id};
    order_.push_back(-1);
    place(id, order_.size() - 1);
  }
}

void StepOrder::place(ValueId step, std::size_t position) {
  order_[position] = step;
  if (step >= 0) position_[index(step)] = position;
}

void StepOrder::merge(ValueId seed, const std::vector<ValueId>& joined,
                      const std::vector<ValueId>& later) {
  if (joined.empty()) return;
  const std::size_t first = position(seed), last = position(joined.back());
  std::vector<bool> moves(last - first + 1, false);
  const auto mark = [&](ValueId step) { moves[position(step) - first] = true; };
  mark(seed);
  std::for_each(joined.begin(), joined.end(), mark);
  std::for_each(later.begin(), later.end(), mark);

  // From the back: those that read from the merged step, the step, then whatever it may read from.
  std::vector<ValueId> others;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    if (!moves[i]) others.push_back(order_[first + i]);
  }
  std::size_t free = last + 1;
  for (auto step = later.rbegin(); step != later.rend(); ++step) place(*step, --free);
  place(seed, --free);
  for (auto step = others.rbegin(); step != others.rend(); ++step) place(*step, --free);
  while (free > first) place(-1, --free);

  for (ValueId value : joined) {
    EPIFUSE_CHECK(step_of(value) == value && values(value).size() == 1, "value already has a step");
    step_of_[index(value)] = seed;
    values_[index(value)].clear();
    values_[index(seed)].push_back(value);
  }
  std::sort(values_[index(seed)].begin(), values_[index(seed)].end());
}

void StepOrder::remove(ValueId value) {
  std::vector<ValueId>& values = values_[index(step_of(value))];
  values.erase(std::find(values.begin(), values.end(), value));
  step_of_[index(value)] = -1;
}

}  // namespace epifuse::plan
