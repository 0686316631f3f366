// How much one step may do: what a target's kernels have room for.
#pragma once

#include <map>
#include <optional>

#include "plan/epilogue.h"
#include "plan/facts.h"
#include "targets/step_limits.h"

namespace epifuse::plan {

constexpr int kMaxComputes = 64;   // ops in one step: longer ones only cost registers
constexpr int kMaxVisits = 128;    // steps that depend on a growing step, looked through in a row
constexpr int kMaxRecomputed = 8;  // ops on small operands that a step does for each element

enum class Reason : std::uint8_t;

// How much of each a step takes of its target's limits.
struct Demand {
  int num_products = 0;  // 0 of a tail, 2 of a gated step
  int parameters = 0, scalars = 0, rows = 0, cols = 0, tiles = 0;
  int stores = 0;
};
Demand demand_of(const Epilogue& epilogue);

// The limit that is exceeded, if one is. Plans are grown and verified by it, and codegen's
// EpilogueLayout refuses what exceeds the parameter block.
std::optional<Reason> exceeded(const Demand& demand, const targets::StepLimits& limits);

// The distinct values that a step loads, with the number of readers of each. Of a folded step the
// batch dims are rows.
class LoadSet {
 public:
  LoadSet(const ir::Graph& graph, int num_products, ir::Shape space, bool folded = false)
      : graph_(&graph), num_products_(num_products), folded_(folded), space_(std::move(space)) {}

  void add(ir::ValueId value);
  void remove(ir::ValueId value);      // one reader of it
  void remove_all(ir::ValueId value);  // it is no longer loaded
  Access access(ir::ValueId value) const;

  std::optional<Reason> exceeded(const targets::StepLimits& limits) const;

 private:
  const ir::Graph* graph_;
  int num_products_;
  bool folded_;
  ir::Shape space_;
  struct Entry {
    int num_readers = 0;
    Access access = Access::tile;
  };
  std::map<ir::ValueId, Entry> entries_;
};

}  // namespace epifuse::plan
