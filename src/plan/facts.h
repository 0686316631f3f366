// What planning asks of a graph again and again, computed once.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "plan/gates.h"
#include "targets/step_limits.h"

namespace epifuse::plan {

// The value that an elementwise op really reads: broadcasts say what elementwise ops do anyway, and
// a view of a scalar or a constant is that number.
ir::ValueId loaded_value(const ir::Graph& graph, ir::ValueId id);

// A computed value is one that some step must produce: neither a source nor a view.
bool is_computed(ir::Op op);

// Whether a value is nothing but its operand in a dtype of more bytes.
bool widens(const ir::Graph& graph, ir::ValueId id);

struct Facts {
  // `pairs`: products that meet in one op are one step's.
  explicit Facts(const ir::Graph& graph, bool pairs = true,
                 const targets::StepLimits& limits = targets::kBlockLimits);

  const ir::Graph& graph;
  targets::StepLimits limits;   // of a step
  std::vector<bool> is_live;    // an output depends on it
  std::vector<bool> is_output;  // of the graph
  Gates gates;
  // A matmul operand, an output or seen through a view (of a gate's columns: by another than an
  // elementwise op): its elements must be in memory.
  std::vector<bool> needs_memory;
  std::vector<ir::ValueId> storage;                  // ir::storage of every value
  std::vector<std::vector<ir::ValueId>> operands;    // of elementwise ops and reductions: what they
                                                     // load, each once, constants left out
  std::vector<std::vector<ir::ValueId>> readers;     // live elementwise ops and reductions that
                                                     // load exactly this value, or columns of it
  std::vector<std::vector<ir::ValueId>> dependents;  // of a computed value: live computed values
                                                     // that read it in any way

  bool computed(ir::ValueId id) const { return is_computed(graph[id].op); }
  // What a step computes when it has `operand` in registers: the matmul whose columns it is, or
  // itself.
  ir::ValueId producer(ir::ValueId operand) const { return gates.producer(operand); }
  // The shape that a step has when `id` is computed in it.
  const ir::Shape& space(ir::ValueId id) const;
  // Whether `value`, or columns that a gate takes of it, is among the reader's operands.
  bool reads(ir::ValueId reader, ir::ValueId value) const;

 private:
  void find_live();
  void find_reads(ir::ValueId id);
};

inline std::size_t index(ir::ValueId id) { return static_cast<std::size_t>(id); }

// The shape that a step has when `id` is computed in it: of a reduction, a join or a scatter, its
// operand's.
const ir::Shape& iteration_shape(const ir::Graph& graph, ir::ValueId id);

}  // namespace epifuse::plan
