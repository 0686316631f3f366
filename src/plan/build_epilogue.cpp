// Writes the values of a step as loads, computes and stores.
//
// With `exact`, a value is rounded to its dtype before anything else in the step reads it; a store
// rounds by itself. A cast to f32 of what is in a register does nothing.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>

#include "base/check.h"
#include "ir/views.h"
#include "plan/access.h"
#include "plan/build.h"

namespace epifuse::plan {
namespace {

using ir::Node;
using ir::Op;
using ir::ValueId;

StoreKind store_kind(Op op) {
  switch (op) {
    case Op::row_sum: return StoreKind::row_sum;
    case Op::row_max: return StoreKind::row_max;
    case Op::col_sum: return StoreKind::col_sum;
    case Op::col_max: return StoreKind::col_max;
    case Op::block_first: return StoreKind::block_first;
    default: return StoreKind::tile;
  }
}

// What is stored and has no slot.
bool is_stored_alone(Op op) {
  return ir::is_reduction(op) || op == Op::put_rows || op == Op::block_first;
}

class Builder {
 public:
  Builder(const Facts& facts, const StepDraft& draft, Numerics numerics)
      : facts_(facts), graph_(facts.graph), draft_(draft), exact_(numerics == Numerics::exact) {}
  Epilogue build();

 private:
  static bool holds(const std::vector<ValueId>& values, ValueId value) {
    return std::binary_search(values.begin(), values.end(), value);
  }
  bool is_read_here(ValueId value) const;
  void add_loads();
  void compute(ValueId value);
  Slot as_read(ValueId value, Slot slot);
  Slot unrounded(ValueId value);
  Slot cast_to(ValueId value, Slot operand);
  Slot operand(ValueId arg);
  Slot append(const Compute& compute);
  void add_store(ValueId value, Slot source);
  void add_halves(ValueId value, bool behind, std::array<Slot, 2> sources);

  const Facts& facts_;
  const ir::Graph& graph_;
  const StepDraft& draft_;
  const bool exact_;
  Epilogue epilogue_;
  std::map<ValueId, Slot> slots_;            // of loads and computed values, as the step reads them
  std::map<std::uint64_t, Slot> constants_;  // by the bits of the number
};

bool Builder::is_read_here(ValueId value) const {
  const std::vector<ValueId>& readers = facts_.readers[index(value)];
  return std::any_of(readers.begin(), readers.end(),
                     [&](ValueId id) { return holds(draft_.values, id); });
}

Epilogue Builder::build() {
  epilogue_.num_accumulators = draft_.matmul < 0 ? 0 : draft_.gate ? 2 : 1;
  add_loads();
  for (ValueId value : draft_.values) compute(value);
  return std::move(epilogue_);
}

// One load for each distinct value, in the order in which the step first reads them.
void Builder::add_loads() {
  for (ValueId value : draft_.values) {
    for (ValueId operand : facts_.operands[index(value)]) {
      const bool is_computed_here = holds(draft_.values, facts_.producer(operand));
      if (is_computed_here || slots_.count(operand) != 0) continue;
      slots_[operand] = epilogue_.first_compute();
      epilogue_.loads.push_back(make_load(graph_, operand, draft_.space));
    }
  }
}

void Builder::compute(ValueId value) {
  const Node& node = graph_[value];
  if (ir::is_block(node.op)) epilogue_.block_rows = node.block_rows;
  if (ir::is_join(node.op)) {
    return add_halves(value, node.op == Op::concat, {operand(node.args[0]), operand(node.args[1])});
  }
  if (draft_.gate && value == draft_.matmul && draft_.gate->gating != Gating::separate) {
    slots_[draft_.gate->first] = as_read(draft_.gate->first, 0);
    slots_[draft_.gate->second] = as_read(draft_.gate->second, 1);
    if (!holds(draft_.stores, value)) return;
    return add_halves(value, draft_.gate->gating == Gating::halves, {0, 1});
  }
  const Slot slot = unrounded(value);
  if (is_stored_alone(node.op)) return add_store(value, slot);
  slots_[value] = as_read(value, slot);
  if (holds(draft_.stores, value)) add_store(value, slots_[value]);
}

// The slot of `value` for those that read it in the step.
Slot Builder::as_read(ValueId value, Slot slot) {
  const Node& node = graph_[value];
  const bool rounds = exact_ && node.type.dtype != DType::f32 &&
                      node.type.dtype != DType::boolean && node.op != Op::cast;
  if (!rounds || !is_read_here(value)) return slot;
  return append({Op::cast, {slot, -1, -1}, 0, node.type.dtype});
}

Slot Builder::unrounded(ValueId value) {
  const Node& node = graph_[value];
  if (ir::is_matmul(node.op)) return draft_.gate && value == draft_.gate->second ? 1 : 0;
  if (is_stored_alone(node.op)) return operand(node.args[0]);
  if (node.op == Op::cast) return cast_to(value, operand(node.args[0]));
  Compute compute{node.op, {-1, -1, -1}, 0, DType::f32};
  for (std::size_t i = 0; i < node.args.size(); ++i) compute.args[i] = operand(node.args[i]);
  return append(compute);
}

Slot Builder::cast_to(ValueId value, Slot operand) {
  const DType dtype = graph_[value].type.dtype;
  if (dtype == DType::f32) return operand;
  // To its own dtype: nothing to do for what is rounded already, or is only stored.
  const bool is_copy = graph_[graph_[value].args[0]].type.dtype == dtype;
  const bool is_load = operand >= epilogue_.first_load() && operand < epilogue_.first_compute();
  if (is_copy && (exact_ || is_load || !is_read_here(value))) return operand;
  return append({Op::cast, {operand, -1, -1}, 0, dtype});
}

Slot Builder::operand(ValueId arg) {
  const ValueId loaded = loaded_value(graph_, arg);
  const auto slot = slots_.find(loaded);
  if (slot != slots_.end()) return slot->second;
  EPIFUSE_CHECK(graph_[loaded].op == Op::constant, "an operand is neither loaded nor computed");
  const double value = graph_[loaded].value;
  const auto known = constants_.find(std::bit_cast<std::uint64_t>(value));
  if (known != constants_.end()) return known->second;
  const Slot constant = append({Op::constant, {-1, -1, -1}, value, DType::f32});
  constants_[std::bit_cast<std::uint64_t>(value)] = constant;
  return constant;
}

Slot Builder::append(const Compute& compute) {
  epilogue_.computes.push_back(compute);
  return epilogue_.num_slots() - 1;
}

void Builder::add_store(ValueId value, Slot source) {
  const Node& node = graph_[value];
  epilogue_.stores.push_back({node.name, value, node.type.dtype, store_kind(node.op), source});
  if (node.op == Op::put_rows) epilogue_.stores.back().index = ir::index_of(node);
}

void Builder::add_halves(ValueId value, bool behind, std::array<Slot, 2> sources) {
  add_store(value, sources[0]);
  epilogue_.stores.back().part = behind ? Part::first_half : Part::even;
  add_store(value, sources[1]);
  epilogue_.stores.back().part = behind ? Part::second_half : Part::odd;
}

}  // namespace

Epilogue build_epilogue(const Facts& facts, const StepDraft& draft, Numerics numerics) {
  return Builder(facts, draft, numerics).build();
}

}  // namespace epifuse::plan
