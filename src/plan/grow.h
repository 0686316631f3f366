// Grows one step from its first value through the values computed from it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "plan/limits.h"
#include "plan/reasons.h"
#include "plan/step_order.h"

namespace epifuse::plan {

// What the growing of steps reads and writes.
struct Draft {
  explicit Draft(const Facts& facts_)
      : facts(facts_),
        order(facts_),
        has_step(facts_.graph.nodes.size()),
        refused(facts_.graph.nodes.size()) {}
  const Facts& facts;
  StepOrder order;
  std::vector<bool> has_step;                   // settled: no later step may take the value
  std::vector<std::optional<Refusal>> refused;  // why a matmul's step did not take the value

  const ir::Graph& graph() const { return facts.graph; }
  bool is_gemm(ir::ValueId step) const { return ir::is_matmul(graph()[step].op); }
  // Of a step that grows from `seed`: 2 where a gate takes both.
  int num_products(ir::ValueId seed) const {
    if (!is_gemm(seed)) return 0;
    return facts.gates.of(seed) == nullptr ? 1 : 2;
  }
};

// What has two halves is stored as two.
int num_stores_of(const Facts& facts, ir::ValueId value);

// Counts the values that a growing step must store: those read outside of it.
class StoreCount {
 public:
  explicit StoreCount(const Facts& facts) : facts_(facts) {}
  void join(ir::ValueId value);
  int num_stores() const { return num_stores_; }

 private:
  const Facts& facts_;

  int num_stores_ = 0;
  std::unordered_map<ir::ValueId, std::size_t> num_readers_left_;  // of values in the step
};

// Visits what depends on the step in the order of steps. A value joins when all it reads is in the
// step or does not depend on it; else it comes later, with all that depends on it. Of the values
// that joined, the longest run that respects the limit of stores is kept.
class Grower {
 public:
  Grower(Draft& draft, ir::ValueId seed);
  void run();

 private:
  using Place = std::pair<std::size_t, ir::ValueId>;  // position and name of a step

  bool reduces_groups(ir::Op op) const;
  std::optional<Refusal> why_not(ir::ValueId value) const;
  std::optional<Refusal> why_not_operands(ir::ValueId value) const;
  bool is_candidate(ir::ValueId value) const;
  std::optional<ir::ValueId> other_direction(ir::ValueId value) const;
  std::optional<ir::ValueId> beside_blocks(ir::ValueId value) const;
  std::optional<ir::ValueId> other_rows(ir::ValueId value) const;
  void note_block(ir::ValueId value);
  bool in_step(ir::ValueId value) const { return joined_set_.count(value) != 0; }
  // Whether an operand is at hand: computed in the step, or columns of what is.
  bool is_at_hand(ir::ValueId operand) const { return in_step(facts_.producer(operand)); }
  bool is_partner(ir::ValueId value) const;
  void visit(ir::ValueId step);
  void join(ir::ValueId value);
  void refuse(ir::ValueId value, const Refusal& refusal);
  void postpone(ir::ValueId step);
  void push(ir::ValueId value, bool as_candidate);
  void push_siblings(ir::ValueId value);
  LoadSet loads_with(ir::ValueId value) const;
  void keep_legal_prefix();
  void drop_wide_results();
  void commit();

  Draft& draft_;
  const Facts& facts_;
  const ir::ValueId seed_;
  const bool is_gemm_, is_grouped_;
  const ir::Shape& space_;
  LoadSet loads_;
  StoreCount stores_;
  std::vector<ir::ValueId> joined_;  // the seed first
  std::unordered_set<ir::ValueId> joined_set_;
  std::unordered_map<ir::ValueId, ir::ValueId> block_of_;  // a block_max that the value depends on
  std::set<Place> queue_;                                  // steps to visit
  std::unordered_set<ir::ValueId> candidates_;             // those of the queue that may join
  std::map<std::size_t, ir::ValueId> later_;  // steps that must come after, by position
  std::unordered_set<ir::ValueId> later_set_;
  std::size_t legal_size_ = 1;  // of joined_
  int num_visits_ = 0;          // since the last join
};

}  // namespace epifuse::plan
