// Builds the graph that a pass returns, node by node in the order of the source graph.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/graph.h"

namespace epifuse::passes {

// A pass visits the nodes of `source` in order, and says of each what it becomes: a node (keep) or
// a value that is there already (replace). Either has the dtype and the shape of the source's
// value, so users never change type. The name of a kept node stays: results are compared by name.
class Rewriter {
 public:
  explicit Rewriter(const ir::Graph& source);

  // The graph built so far. References into it end at the next keep or add.
  const ir::Graph& graph() const { return built_; }
  const ir::Node& operator[](ir::ValueId id) const { return built_[id]; }

  // A node of the source with its operands as they are now.
  ir::Node moved(const ir::Node& node) const;

  ir::ValueId keep(ir::Node node);
  void replace(ir::ValueId value);

  // Appends a node that the source does not have and infers its type. Its name is a fresh one, or
  // that of the source node whose value it computes.
  ir::ValueId add(ir::Node helper);
  ir::ValueId add_constant(double value);
  // A name that no node of the source or of the graph so far has: "y_exp0" for "y" and "exp".
  std::string fresh_name(std::string_view root, std::string_view what);

  // The graph, once every node of the source is kept or replaced.
  ir::Graph finish();

 private:
  std::string numbered_name(const std::string& stem);

  const ir::Graph& source_;
  ir::Graph built_;
  std::vector<ir::ValueId> value_of_;  // by ValueId of the source
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, std::size_t> num_of_stem_;
};

// Whether two values are interchangeable for their users: same dtype, same shape.
bool same_type(const ir::TensorType& a, const ir::TensorType& b);

// `node` as another op on other operands, with its name and type.
ir::Node with_op(const ir::Node& node, ir::Op op, std::vector<ir::ValueId> args);

}  // namespace epifuse::passes
