// Adds the copies that make every output and every operand expressible in a plan.
#include "plan/prepare.h"

#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "ir/views.h"
#include "passes/pipeline.h"
#include "plan/access.h"
#include "plan/facts.h"

namespace epifuse::plan {
namespace {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

// A matrix product reads matrices with one contiguous dim and a stride along the other, or rows
// that are looked up.
bool is_matrix_in_memory(const Graph& graph, ValueId id) {
  const Op origin = graph[ir::storage(graph, id)].op;
  if (origin == Op::scalar || origin == Op::constant) return false;
  const ir::Shape& shape = graph[id].type.shape;
  const std::vector<bool> varies = ir::varies(graph, id);
  const std::optional<ir::Lookup> lookup = ir::lookup(graph, id);
  for (std::size_t d = shape.size() - 2; d < shape.size(); ++d) {
    const bool is_looked_up = lookup && lookup->dim == d;  // maybe in a table of one row
    if (!varies[d] && !shape[d].is(1) && !is_looked_up) return false;
  }
  const std::optional<int> unit = ir::unit_stride_dim(graph, id);
  return unit && static_cast<std::size_t>(*unit) + 2 >= shape.size();
}

// Block scales lie anyhow.
bool is_tensor_in_memory(const Graph& graph, ValueId id) {
  const Op origin = graph[ir::storage(graph, id)].op;
  return origin != Op::scalar && origin != Op::constant && !ir::lookup(graph, id);
}

class Copier {
 public:
  explicit Copier(const Graph& from);
  Graph run();

 private:
  ValueId copied(ValueId id, const std::string& name);
  ValueId copy_of(ValueId id);
  ValueId append(Op op, std::vector<ValueId> args, DType dtype, const std::string& name,
                 double value = 0);
  bool needs_copy(ValueId arg, const Node& reader, std::size_t place) const;

  const Graph& from_;
  Graph to_;
  std::vector<ValueId> new_id_;
  std::map<ValueId, ValueId> copies_;  // that ops read instead
  FreeNames names_;
};

Copier::Copier(const Graph& from) : from_(from), to_{from.name, {}, {}}, names_(from) {}

Graph Copier::run() {
  for (const Node& node : from_.nodes) {
    Node mapped = node;
    for (ValueId& arg : mapped.args) {
      arg = new_id_[index(arg)];
      const auto place = static_cast<std::size_t>(&arg - mapped.args.data());
      if (needs_copy(arg, node, place)) arg = copy_of(arg);
    }
    to_.nodes.push_back(std::move(mapped));
    if (!ir::has_plain_lookup(to_, static_cast<ValueId>(to_.nodes.size()) - 1)) {
      Node blurred = std::move(to_.nodes.back());
      to_.nodes.pop_back();
      blurred.args[0] = copy_of(blurred.args[0]);
      to_.nodes.push_back(std::move(blurred));
    }
    new_id_.push_back(static_cast<ValueId>(to_.nodes.size()) - 1);
  }
  std::unordered_set<ValueId> written;
  for (const ir::Output& output : from_.outputs) {
    ValueId value = new_id_[index(output.value)];
    if (!is_computed(to_[value].op) || !written.insert(value).second) {
      value = copied(value, output.name);
    }
    to_.outputs.push_back({output.name, value});
  }
  return std::move(to_);
}

// `arg` is in the new graph, `reader` still in the old one, which has it at `place`.
bool Copier::needs_copy(ValueId arg, const Node& reader, std::size_t place) const {
  if (is_integer(to_[arg].type.dtype)) return false;
  if (ir::is_matmul(reader.op) && place >= 2) return !is_tensor_in_memory(to_, arg);
  if (ir::is_matmul(reader.op)) {
    const std::optional<ir::Lookup> lookup = ir::lookup(to_, arg);
    const bool may_look_up = ir::is_grouped_matmul(reader.op) && place == 0;
    const bool has_rows =
        may_look_up && to_[arg].type.shape.size() == 2 && (!lookup || lookup->dim == 0);
    return !is_matrix_in_memory(to_, arg) || (lookup && !has_rows);
  }
  return reader.op == Op::reshape && !reshapes_as_view(to_, arg, reader.type.shape);
}

// One for all ops that need it.
ValueId Copier::copy_of(ValueId id) {
  const auto known = copies_.find(id);
  if (known != copies_.end()) return known->second;
  const ValueId copy = copied(id, to_[id].name + "_copy");
  copies_[id] = copy;
  return copy;
}

// No cast gives bool: a bool c is copied as ne(select(c, 1, 0), 0).
ValueId Copier::copied(ValueId id, const std::string& name) {
  const DType dtype = to_[id].type.dtype;
  if (dtype != DType::boolean) return append(Op::cast, {id}, dtype, name);
  const ValueId one = append(Op::constant, {}, DType::f32, "one", 1);
  const ValueId zero = append(Op::constant, {}, DType::f32, "zero", 0);
  const ValueId number = append(Op::select, {id, one, zero}, DType::f32, name + "_number");
  return append(Op::ne, {number, zero}, DType::boolean, name);
}

ValueId Copier::append(Op op, std::vector<ValueId> args, DType dtype, const std::string& name,
                       double value) {
  Node node;
  node.op = op;
  node.name = names_.take(name);
  node.args = std::move(args);
  node.type.dtype = dtype;
  node.value = value;
  node.type = ir::infer_type(to_, node);
  to_.nodes.push_back(std::move(node));
  return static_cast<ValueId>(to_.nodes.size()) - 1;
}

}  // namespace

FreeNames::FreeNames(const Graph& graph) {
  for (const Node& node : graph.nodes) taken_.insert(node.name);
}

std::string FreeNames::take(const std::string& wanted) {
  std::string name = wanted;
  for (int i = 2; !taken_.insert(name).second; ++i) name = wanted + "_" + std::to_string(i);
  return name;
}

Graph add_copies(const Graph& graph) { return Copier(graph).run(); }

Graph prepare(const Graph& graph) {
  return passes::dead_code(add_copies(hoist_output_reshapes(graph)));
}

}  // namespace epifuse::plan
