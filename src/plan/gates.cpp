// Finds the pairs of products that meet in one op.
//
//   h = matmul x, w; a = h[:, :I]; b = h[:, I:]; y = mul (silu a), b   columns of one
//   a = matmul x, v; b = matmul x, w; y = mul (silu a), b              separate
//
// Only what two products are read for makes a gate: a value that is computed from a third one, or
// from only one of the two, is none. So the three parts of a projection to queries, keys and values
// are left alone.
#include "plan/gates.h"

#include <algorithm>
#include <optional>

#include "ir/views.h"
#include "plan/facts.h"

namespace epifuse::plan {
namespace {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

constexpr ValueId kNone = -1, kSeveral = -2;

class GateFinder {
 public:
  GateFinder(const Graph& graph, const std::vector<bool>& is_live)
      : graph_(graph), is_live_(is_live), users_(ir::users(graph)), is_taken_(graph.nodes.size()) {}

  std::vector<Gate> run() {
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.nodes.size()); ++id) {
      products_.push_back(is_live_[index(id)] ? product_of(id) : kNone);
    }
    return std::move(gates_);
  }

 private:
  // The one product, a matmul or columns of one, that a value is computed from.
  ValueId product_of(ValueId id) {
    const Node& node = graph_[id];
    if (ir::is_matmul(node.op)) return id;
    if (is_columns_of_matmul(id)) return id;
    if (!ir::is_elementwise(node.op)) return kNone;
    ValueId found = kNone;
    for (ValueId arg : node.args) {
      const ValueId product = products_[index(loaded_value(graph_, arg))];
      if (product == kNone || product == found) continue;
      if (found == kNone) {
        found = product;
        continue;
      }
      if (found >= 0 && product >= 0) add_gate(std::min(found, product), std::max(found, product));
      found = kSeveral;
    }
    return found;
  }

  bool is_columns_of_matmul(ValueId id) const {
    return ir::is_column_slice(graph_, id) && ir::is_matmul(graph_[graph_[id].args[0]].op);
  }

  void add_gate(ValueId first, ValueId second) {
    const bool both_columns = graph_[first].op == Op::slice && graph_[second].op == Op::slice;
    const bool both_matmuls = ir::is_matmul(graph_[first].op) && ir::is_matmul(graph_[second].op);
    std::optional<Gate> gate;
    if (both_columns) gate = gate_of_columns(first, second);
    if (both_matmuls) gate = gate_of_matmuls(first, second);
    if (!gate || graph_[gate->matmul].op == ir::Op::k_grouped_matmul) return;
    gates_.push_back(*gate);
    is_taken_[index(gate->matmul)] = is_taken_[index(gate->second)] = true;
  }

  std::optional<Gate> gate_of_columns(ValueId first, ValueId second) const {
    for (int turn = 0; turn < 2; ++turn, std::swap(first, second)) {
      const ir::Halves how = ir::halves(graph_, first, second);
      if (how == ir::Halves::none) continue;
      const ValueId matmul = graph_[first].args[0];
      if (num_live_users(matmul) != 2 || is_taken(matmul)) return std::nullopt;
      const bool behind = how == ir::Halves::behind;
      return Gate{behind ? Gating::halves : Gating::interleaved, matmul, first, second};
    }
    return std::nullopt;
  }

  std::optional<Gate> gate_of_matmuls(ValueId first, ValueId second) const {
    const Node& a = graph_[first];
    const Node& b = graph_[second];
    if (is_taken(first) || is_taken(second)) return std::nullopt;
    if (!is_same(a.args[0], b.args[0]) || a.transpose_a != b.transpose_a) return std::nullopt;
    if (a.type != b.type || a.transpose_b != b.transpose_b) return std::nullopt;
    if (a.promoted != b.promoted) return std::nullopt;
    if (a.op != b.op || (ir::is_grouped_matmul(a.op) && a.args[2] != b.args[2])) {
      return std::nullopt;
    }
    if (ir::is_scaled_matmul(a.op) && !scales_go_together(a, b)) return std::nullopt;
    if (ir::unit_stride_dim(graph_, a.args[1]) != ir::unit_stride_dim(graph_, b.args[1])) {
      return std::nullopt;
    }
    for (const ValueId weight : {a.args[1], b.args[1]}) {
      if (is_computed(graph_[ir::storage(graph_, weight)].op)) return std::nullopt;
    }
    const ir::TensorType &of_a = graph_[a.args[1]].type, &of_b = graph_[b.args[1]].type;
    if (of_a.shape != of_b.shape || of_a.dtype != of_b.dtype) return std::nullopt;
    return Gate{Gating::separate, first, first, second};
  }

  // One A has its scales, and either B scales of as many elements.
  bool scales_go_together(const Node& first, const Node& second) const {
    const ir::BlockScales a = ir::block_scales(graph_, first), b = ir::block_scales(graph_, second);
    return is_same(a.a, b.a) && graph_[a.b].type.shape == graph_[b.b].type.shape &&
           !is_computed(graph_[ir::storage(graph_, b.b)].op);
  }

  // One value, or equal views of one.
  bool is_same(ValueId first, ValueId second) const {
    while (first != second) {
      const Node& a = graph_[first];
      const Node& b = graph_[second];
      const bool are_alike = ir::is_view(a.op) && a.op == b.op && a.type == b.type &&
                             a.permutation == b.permutation && a.ranges == b.ranges &&
                             (!ir::is_lookup(a.op) || a.args[1] == b.args[1]);
      if (!are_alike) return false;
      first = a.args[0];
      second = b.args[0];
    }
    return true;
  }

  std::size_t num_live_users(ValueId id) const {
    const std::vector<ValueId>& users = users_[index(id)];
    return static_cast<std::size_t>(std::count_if(
        users.begin(), users.end(), [&](ValueId user) { return is_live_[index(user)]; }));
  }

  bool is_taken(ValueId matmul) const { return is_taken_[index(matmul)]; }

  const Graph& graph_;
  const std::vector<bool>& is_live_;
  const std::vector<std::vector<ValueId>> users_;
  std::vector<ValueId> products_;  // by value
  std::vector<bool> is_taken_;     // by value: what gates already multiply
  std::vector<Gate> gates_;
};

}  // namespace

std::string_view name(Gating gating) {
  switch (gating) {
    case Gating::none: return "none";
    case Gating::halves: return "halves";
    case Gating::interleaved: return "interleaved";
    case Gating::separate: return "separate";
  }
  return "";
}

Gates::Gates(const Graph& graph, const std::vector<bool>& is_live) {
  for (const Gate& gate : GateFinder(graph, is_live).run()) {
    gates_[gate.matmul] = gate;
    if (gate.gating == Gating::separate) {
      gates_[gate.second] = gate;
    } else {
      producers_[gate.first] = producers_[gate.second] = gate.matmul;
    }
  }
}

const Gate* Gates::of(ValueId matmul) const {
  const auto gate = gates_.find(matmul);
  return gate == gates_.end() ? nullptr : &gate->second;
}

ValueId Gates::producer(ValueId value) const {
  const auto producer = producers_.find(value);
  return producer == producers_.end() ? value : producer->second;
}

}  // namespace epifuse::plan
