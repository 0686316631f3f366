// How much one step may do: what a target's kernels have room for.
#include "plan/limits.h"

#include "plan/access.h"
#include "plan/reasons.h"

namespace epifuse::plan {
namespace {

void count(Demand& demand, Access access) {
  switch (access) {
    case Access::parameter: ++demand.parameters; break;
    case Access::scalar: ++demand.scalars; break;
    case Access::row: ++demand.rows; break;
    case Access::col: ++demand.cols; break;
    case Access::tile: ++demand.tiles; break;
  }
}

}  // namespace

Demand demand_of(const Epilogue& epilogue) {
  Demand demand;
  demand.num_products = epilogue.num_accumulators;
  for (const Load& load : epilogue.loads) count(demand, load.access);
  demand.stores = static_cast<int>(epilogue.stores.size());
  return demand;
}

std::optional<Reason> exceeded(const Demand& demand, const targets::StepLimits& of) {
  const targets::OperandLimits& limits = demand.num_products > 0 ? of.gemm : of.tail;
  if (demand.parameters > limits.parameters) return Reason::too_many_parameters;
  if (demand.stores > limits.stores) return Reason::too_many_stores;
  // A fused kernel must also fit as a tail, which loads the products too (see split).
  const int in_memory = demand.scalars + demand.rows + demand.cols + demand.tiles;
  if (in_memory + demand.num_products > limits.loads) return Reason::too_many_loads;
  if (demand.tiles > limits.tiles) return Reason::too_many_tiles;
  if (demand.rows > limits.rows) return Reason::too_many_rows;
  if (demand.cols > limits.cols) return Reason::too_many_cols;
  if (demand.scalars > limits.scalars) return Reason::too_many_scalars;
  return std::nullopt;
}

void LoadSet::add(ir::ValueId value) {
  Entry& entry = entries_[value];
  if (entry.num_readers++ == 0) entry.access = access(value);
}

void LoadSet::remove(ir::ValueId value) {
  const auto entry = entries_.find(value);
  if (entry != entries_.end() && --entry->second.num_readers == 0) entries_.erase(entry);
}

void LoadSet::remove_all(ir::ValueId value) { entries_.erase(value); }

Access LoadSet::access(ir::ValueId value) const {
  const Load load =
      folded_ ? make_folded_load(*graph_, value, space_) : make_load(*graph_, value, space_);
  return load.access;
}

std::optional<Reason> LoadSet::exceeded(const targets::StepLimits& limits) const {
  Demand demand;
  demand.num_products = num_products_;
  for (const auto& [value, entry] : entries_) count(demand, entry.access);
  return plan::exceeded(demand, limits);
}

}  // namespace epifuse::plan
