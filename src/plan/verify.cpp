// The invariants of plans and epilogues.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "ir/op.h"
#include "ir/views.h"
#include "plan/access.h"
#include "plan/facts.h"
#include "plan/limits.h"
#include "plan/plan.h"
#include "plan/reasons.h"

namespace epifuse::plan {
namespace {

using ir::ValueId;

// Values written so far, while steps are checked in order.
class Checker {
 public:
  explicit Checker(const Plan& plan) : plan_(plan), graph_(plan.graph) {}
  void run();

 private:
  void check(bool holds, std::string_view message) const;
  void check_epilogue(const Epilogue& epilogue, const ir::Shape& space, bool flattened);
  void check_load(const Load& load, const ir::Shape& space, bool flattened) const;
  void check_store(const Store& store, const ir::Shape& space);
  bool is_second_part(const Store& store) const;
  void check_in_memory(ValueId value) const;
  void check_directions(const Epilogue& epilogue) const;
  void check_gating(const GemmDesc& gemm) const;
  void check_grouping(const FusedGemm& step) const;
  void check_step(const FusedGemm& step);
  void check_step(const Tail& step);
  void check_left_out() const;

  const Plan& plan_;
  const ir::Graph& graph_;
  std::size_t step_ = 0;
  std::set<ValueId> written_;
  std::set<std::pair<ValueId, Part>> parts_;
};

void Checker::check(bool holds, std::string_view message) const {
  if (!holds) {
    throw InternalError(fmt::format("plan {}, step {}: {}", graph_.name, step_, message));
  }
}

void Checker::check_in_memory(ValueId value) const {
  const ValueId storage = ir::storage(graph_, value);
  check(graph_[storage].op == ir::Op::input || written_.count(storage) != 0,
        fmt::format("'{}' is read before it is written", graph_[value].name));
}

void Checker::check_load(const Load& load, const ir::Shape& space, bool flattened) const {
  const Load expected = flattened ? make_folded_load(graph_, load.value, space)
                                  : make_load(graph_, load.value, space);
  check(load == expected, fmt::format("load {} is not what its value is", load.name));
  if (load.access != Access::parameter) check_in_memory(load.value);
}

void Checker::check_store(const Store& store, const ir::Shape& space) {
  const ir::Node& node = graph_[store.value];
  const std::string what = fmt::format("store {} ", store.name);
  check(is_computed(node.op), what + "is of a value that is not computed");
  check(store.name == node.name && store.dtype == node.type.dtype, what + "differs from its value");
  const bool is_first = written_.insert(store.value).second;
  check(parts_.insert({store.value, store.part}).second && (is_first || is_second_part(store)),
        what + "is written twice");
  const bool is_alone = store.kind != StoreKind::tile;
  check(is_alone == (ir::is_reduction(node.op) || node.op == ir::Op::block_first),
        what + "is of the wrong kind");
  check(!is_alone || name(store.kind) == ir::name(node.op), what + "is of the wrong kind");
  check(store.index == (node.op == ir::Op::put_rows ? ir::index_of(node) : -1),
        what + "puts rows where its value does not");
  ir::Shape shape = iteration_shape(graph_, store.value);
  if (store.part != Part::whole) shape.back() = space.back();
  check(shape == space, what + "has another shape than its step");
  check(store.part == Part::whole || node.type.shape.back() == space.back() * 2,
        what + "is not of one of two halves");
}

// Of a value whose first part was written before.
bool Checker::is_second_part(const Store& store) const {
  const Part first = store.part == Part::odd ? Part::even : Part::first_half;
  return is_second(store.part) && parts_.count({store.value, first}) != 0;
}

void Checker::check_epilogue(const Epilogue& epilogue, const ir::Shape& space, bool flattened) {
  verify(epilogue);
  if (const std::optional<Reason> reason = exceeded(demand_of(epilogue), plan_.limits)) {
    const ReasonInfo& limit = all_reasons()[static_cast<std::size_t>(*reason)];
    check(false,
          fmt::format("its epilogue has {} (more than {})", limit.code, limit.limit(plan_.limits)));
  }
  for (const Load& load : epilogue.loads) check_load(load, space, flattened);
  for (const Store& store : epilogue.stores) check_store(store, space);
  for (const Store& store : epilogue.stores) {
    const bool is_block = store.kind == StoreKind::block_first;
    check(!is_block || graph_[store.value].block_rows == epilogue.block_rows,
          "blocks of other rows than its step's");
  }
}

void Checker::check_gating(const GemmDesc& gemm) const {
  const ir::TensorType& type = graph_[gemm.matmul].type;
  const bool gives_both = gemm.halves() != ir::Halves::none;
  check(type.shape.back() == (gives_both ? gemm.n * 2 : gemm.n),
        "its columns are not its product's");
  const bool is_separate = gemm.gating == Gating::separate;
  check((gemm.gating == Gating::none) == (gemm.second < 0), "a second product without a gate");
  check(is_separate == (gemm.second_b.value >= 0), "a second operand of one matmul");
  if (!is_separate) return;
  check(graph_[gemm.second].type == type, "its two products differ");
}

void Checker::check_grouping(const FusedGemm& step) const {
  const GemmDesc& gemm = step.gemm;
  const ir::Node& node = graph_[gemm.matmul];
  const bool is_grouped = ir::is_grouped_matmul(node.op);
  check(gemm.groups == (is_grouped ? ir::index_of(node) : -1), "its groups are not its product's");
  const bool is_k_grouped = node.op == ir::Op::k_grouped_matmul;
  check(gemm.k_groups == (is_k_grouped ? ir::index_of(node) : -1),
        "the groups of K are not its product's");
  check(!is_k_grouped || (gemm.batch.size() == 1 && gemm.gating == Gating::none),
        "a product that is grouped along K is no batch, or gated");
  check(gemm.a.lookup < 0 || (is_grouped && gemm.batch.empty()), "its A cannot be looked up");
  check(gemm.b.lookup < 0 && gemm.second_b.lookup < 0, "its B is looked up");
  const auto is_allowed = [&](const Store& store) {
    const bool is_of_rows = is_grouped && gemm.batch.empty() && reduces_rows(store.kind);
    return !reduces(store.kind) || (is_of_rows && plan_.limits.reduces_rows_of_groups);
  };
  check(!gemm.has_groups() || std::ranges::all_of(step.epilogue.stores, is_allowed),
        "groups are reduced");
}

void Checker::check_step(const FusedGemm& step) {
  const GemmDesc& gemm = step.gemm;
  check(gemm.matmul >= 0 && ir::is_matmul(graph_[gemm.matmul].op), "its product is no matmul");
  check(step.epilogue.has_accumulator(), "a fused product has no accumulator");
  check_grouping(step);
  for (const ValueId value : gemm.reads()) check_in_memory(value);
  check(gemm.is_scaled() == ir::is_scaled_matmul(graph_[gemm.matmul].op),
        "its scales are not its product's");
  check_gating(gemm);
  check(step.epilogue.is_gated() == (gemm.gating != Gating::none),
        "a gated product has two accumulators");
  check_epilogue(step.epilogue, space(graph_, gemm), gemm.flattened);
  check_directions(step.epilogue);
  for (const Store& store : step.epilogue.stores) {
    check(!gemm.flattened || !reduces_columns(store.kind), "columns are reduced over batches");
  }
}

void Checker::check_step(const Tail& step) {
  check(!step.epilogue.has_accumulator(), "a tail has an accumulator");
  check_epilogue(step.epilogue, step.shape, false);
  check_directions(step.epilogue);
}

void Checker::check_directions(const Epilogue& epilogue) const {
  const StoreKind* direction = nullptr;
  for (const Store& store : epilogue.stores) {
    if (!reduces(store.kind)) continue;
    check(!epilogue.has_blocks(), "a step reduces beside blocks");
    if (!direction) direction = &store.kind;
    check(reduces_rows(*direction) == reduces_rows(store.kind), "a step reduces rows and columns");
  }
}

// What is left out is really computed elsewhere, and has one reason with a known code.
void Checker::check_left_out() const {
  std::set<ValueId> fused;
  for (const Step& step : plan_.steps) {
    if (!std::holds_alternative<FusedGemm>(step)) continue;
    const std::vector<ValueId> values = computed_values(plan_, step);
    fused.insert(values.begin(), values.end());
  }
  std::set<ValueId> explained;
  for (const LeftOut& left_out : plan_.left_out) {
    const auto rows = all_reasons();
    check(std::any_of(rows.begin(), rows.end(),
                      [&](const ReasonInfo& row) { return row.code == left_out.why.code; }),
          "an unknown reason " + left_out.why.code);
    check(explained.insert(left_out.value).second, "a value is left out twice");
    check(fused.count(left_out.value) == 0, "a value that is left out is fused");
  }
}

void Checker::run() {
  ir::verify(graph_);
  for (const Step& step : plan_.steps) {
    std::visit([&](const auto& s) { check_step(s); }, step);
    ++step_;
  }
  for (const ir::Output& output : graph_.outputs) {
    check(written_.count(output.value) != 0, fmt::format("output {} is not written", output.name));
  }
  check_left_out();
}

void check_slot(Slot slot, Slot end) {
  EPIFUSE_CHECK(slot >= 0 && slot < end, fmt::format("slot {} is not before {}", slot, end));
}

}  // namespace

void verify(const Epilogue& epilogue) {
  std::set<ValueId> loaded;
  for (const Load& load : epilogue.loads) {
    EPIFUSE_CHECK(loaded.insert(load.value).second, "a value is loaded twice: " + load.name);
  }
  Slot slot = epilogue.first_compute();
  for (const Compute& compute : epilogue.computes) {
    const bool is_allowed = compute.op == ir::Op::constant || ir::is_elementwise(compute.op) ||
                            compute.op == ir::Op::block_max;
    EPIFUSE_CHECK(is_allowed, "an epilogue computes element by element, or maxima of blocks");
    const int arity = compute.op == ir::Op::constant ? 0 : ir::info(compute.op).arity;
    for (int i = 0; i < arity; ++i) check_slot(compute.args[static_cast<std::size_t>(i)], slot);
    ++slot;
  }
  EPIFUSE_CHECK(!epilogue.has_squares() || epilogue.has_blocks(), "squares of no block");
  EPIFUSE_CHECK(!epilogue.stores.empty(), "an epilogue stores nothing");
  for (const Store& store : epilogue.stores) check_slot(store.source, epilogue.num_slots());
}

void verify(const Plan& plan) { Checker(plan).run(); }

}  // namespace epifuse::plan
