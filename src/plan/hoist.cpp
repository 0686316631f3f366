// Computes a value in the shape in which it is an output:
//   reshape(f(a, matmul(b, w))) -> f(reshape(a), matmul(reshape(b), w))
// where the reshape touches rows only; slices of columns and joins of them change likewise. Other
// readers see the value through a reshape back.
#include <algorithm>
#include <map>
#include <optional>
#include <unordered_set>
#include <vector>

#include "ir/views.h"
#include "plan/facts.h"
#include "plan/prepare.h"

namespace epifuse::plan {
namespace {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::Shape;
using ir::ValueId;

bool is_row(const Shape& shape) {  // of a row per matrix at most: only its last dim is not 1
  return shape.empty() ||
         std::all_of(shape.begin(), shape.end() - 1, [](const Dim& dim) { return dim.is(1); });
}

// The shape that an elementwise operand takes when the result goes from shape `from` to `to`; none
// when there is no such shape.
std::optional<Shape> operand_shape(const Shape& operand, const Shape& from, const Shape& to) {
  if (operand == from) return to;
  if (operand.empty()) return operand;
  if (from.back() != to.back()) return std::nullopt;
  if (is_row(operand)) return Shape{operand.back()};
  const bool is_col = operand.size() == from.size() && operand.back().is(1) &&
                      std::equal(operand.begin(), operand.end() - 1, from.begin());
  if (!is_col) return std::nullopt;
  Shape result = to;
  result.back() = 1;
  return result;
}

// The rows of `rows`, the columns of `columns`.
Shape with_columns(Shape rows, const Shape& columns) {
  rows.back() = columns.back();
  return rows;
}

// The values that must change shape together: elementwise ones, matmuls, columns of them and joins.
class Component {
 public:
  Component(const Facts& facts, const Shape& to) : facts_(facts), graph_(facts.graph), to_(to) {}
  bool collect(ValueId root);
  const std::unordered_set<ValueId>& values() const { return values_; }
  // The shape that one of `values` gets.
  Shape new_shape(ValueId value) const {
    return keeps_columns_ ? with_columns(to_, graph_[value].type.shape) : to_;
  }

 private:
  bool follows(ValueId arg, const Node& reader) const;
  bool can_change(ValueId value) const;
  bool can_change_matmul(const Node& node) const;
  bool readers_allow(ValueId value) const;

  const Facts& facts_;
  const Graph& graph_;
  const Shape& to_;
  bool keeps_columns_ = false;
  std::unordered_set<ValueId> values_;
};

bool Component::collect(ValueId root) {
  const Shape& from = graph_[root].type.shape;
  keeps_columns_ = !from.empty() && !to_.empty() && from.back() == to_.back();
  std::vector<ValueId> open{root};
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    if (!values_.insert(value).second) continue;
    for (ValueId reader : facts_.readers[index(value)]) {
      if (!ir::is_reduction(graph_[reader].op)) open.push_back(reader);
    }
    if (graph_[value].op == Op::matmul) continue;
    for (ValueId arg : graph_[value].args) {
      if (follows(arg, graph_[value])) open.push_back(arg);
    }
  }
  return std::all_of(values_.begin(), values_.end(),
                     [&](ValueId value) { return can_change(value) && readers_allow(value); });
}

// Whether an operand changes with its reader.
bool Component::follows(ValueId arg, const Node& reader) const {
  const Node& node = graph_[arg];
  if (ir::is_column_slice(graph_, arg)) return follows(node.args[0], node);
  const bool is_of_kind =
      ir::is_elementwise(node.op) || node.op == Op::matmul || ir::is_join(node.op);
  const bool spans = ir::is_elementwise(reader.op)
                         ? node.type.shape == reader.type.shape
                         : ir::is_join(reader.op) || reader.op == Op::slice;
  return is_of_kind && spans;
}

bool Component::can_change(ValueId value) const {
  const Node& node = graph_[value];
  if (facts_.is_output[index(value)]) return false;
  if (node.op == Op::matmul) return can_change_matmul(node);
  if (ir::is_join(node.op) || node.op == Op::slice) return keeps_columns_;
  if (!ir::is_elementwise(node.op) || node.type.shape.empty() || to_.empty()) return false;
  return std::all_of(node.args.begin(), node.args.end(), [&](ValueId arg) {
    return operand_shape(graph_[arg].type.shape, node.type.shape, new_shape(value)).has_value();
  });
}

// [M, K] x [K, N] with the rows of A split over several dims.
bool Component::can_change_matmul(const Node& node) const {
  constexpr std::size_t kMaxMatmulRank = 5;
  return !node.transpose_a && node.type.shape.size() == 2 && to_.size() >= 2 &&
         to_.size() <= kMaxMatmulRank && keeps_columns_;
}

// Elementwise readers would be cut off by the reshape back, unless they change too.
bool Component::readers_allow(ValueId value) const {
  const std::vector<ValueId>& readers = facts_.readers[index(value)];
  return std::all_of(readers.begin(), readers.end(), [&](ValueId reader) {
    return values_.count(reader) != 0 || ir::is_reduction(graph_[reader].op);
  });
}

class Hoister {
 public:
  explicit Hoister(const Graph& from) : from_(from), to_{from.name, {}, {}}, names_(from) {}
  Graph run();

 private:
  void find_values(const Facts& facts);
  ValueId with_shape(ValueId id, const Shape& shape, const std::string& name = "");
  void map_node(ValueId id);

  const Graph& from_;
  Graph to_;
  FreeNames names_;
  std::map<ValueId, Shape> new_shape_;  // of values that change
  std::vector<ValueId> new_id_;
  std::map<ValueId, std::vector<ValueId>> reshapes_;  // added, by operand
};

void Hoister::find_values(const Facts& facts) {
  for (const ir::Output& output : from_.outputs) {
    if (from_[output.value].op != Op::reshape) continue;
    ValueId root = output.value;
    while (from_[root].op == Op::reshape) root = from_[root].args[0];
    const Shape& shape = from_[output.value].type.shape;
    if (!facts.computed(root) || new_shape_.count(root) != 0) continue;
    Component component(facts, shape);
    if (!component.collect(root)) continue;
    for (ValueId value : component.values()) {
      new_shape_.insert({value, component.new_shape(value)});
    }
  }
}

Graph Hoister::run() {
  find_values(Facts(from_));
  if (new_shape_.empty()) return from_;
  for (ValueId id = 0; id < static_cast<ValueId>(from_.nodes.size()); ++id) map_node(id);
  for (const ir::Output& output : from_.outputs) {
    to_.outputs.push_back({output.name, new_id_[index(output.value)]});
  }
  return std::move(to_);
}

void Hoister::map_node(ValueId id) {
  Node node = from_[id];
  if (node.op == Op::reshape) {
    new_id_.push_back(with_shape(new_id_[index(node.args[0])], node.type.shape, node.name));
    return;
  }
  const auto changed = new_shape_.find(id);
  for (std::size_t i = 0; i < node.args.size(); ++i) {
    Shape shape = from_[node.args[i]].type.shape;
    if (changed != new_shape_.end()) {
      const bool is_b = node.op == Op::matmul && i == 1;
      if (ir::is_elementwise(node.op)) {
        shape = *operand_shape(shape, node.type.shape, changed->second);
      } else if (!is_b) {
        shape = with_columns(changed->second, shape);
      }
    }
    node.args[i] = with_shape(new_id_[index(node.args[i])], shape);
  }
  if (changed != new_shape_.end() && node.op == Op::slice) {
    const ir::SliceRange columns = node.ranges.back();
    node.ranges.clear();
    for (const Dim& dim : changed->second) node.ranges.push_back({Dim{}, dim, 1});
    node.ranges.back() = columns;
  }
  if (changed != new_shape_.end()) node.type = ir::infer_type(to_, node);
  to_.nodes.push_back(std::move(node));
  new_id_.push_back(static_cast<ValueId>(to_.nodes.size()) - 1);
}

// The value seen under `shape`: itself, or a reshape of what it is a reshape of.
ValueId Hoister::with_shape(ValueId id, const Shape& shape, const std::string& name) {
  while (to_[id].type.shape != shape && to_[id].op == Op::reshape) id = to_[id].args[0];
  if (to_[id].type.shape == shape) return id;
  for (ValueId reshape : reshapes_[id]) {
    if (to_[reshape].type.shape == shape) return reshape;
  }
  Node node;
  node.op = Op::reshape;
  node.name = name.empty() ? names_.take(to_[id].name + "_view") : name;
  node.args = {id};
  node.type = {to_[id].type.dtype, shape, {}};
  to_.nodes.push_back(std::move(node));
  const ValueId reshape = static_cast<ValueId>(to_.nodes.size()) - 1;
  reshapes_[id].push_back(reshape);
  return reshape;
}

}  // namespace

Graph hoist_output_reshapes(const Graph& graph) { return Hoister(graph).run(); }

}  // namespace epifuse::plan
