// push_slices: takes halves of a matmul's columns before the elementwise work on all of them.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ir/views.h"
#include "passes/pipeline.h"
#include "passes/rewriter.h"

namespace epifuse::passes {
namespace {

using ir::Halves;
using ir::Node;
using ir::Op;
using ir::ValueId;

// The two slices through which alone elementwise work reads a value, and that meet again in one op.
struct Cut {
  Halves how;
  std::array<ValueId, 2> slices;
};

class SlicePusher {
 public:
  // `by_name`: halves have no memory of their own, only the whole has.
  SlicePusher(const ir::Graph& graph, bool by_name)
      : graph_(graph),
        by_name_(by_name),
        users_(ir::users(graph)),
        is_output_(graph.nodes.size()),
        rewriter_(graph) {
    for (const ir::Output& output : graph.outputs) is_output_[at(output.value)] = true;
  }

  PushedSlices run() {
    for (ValueId id = 0; id < size(); ++id) {
      if (const std::optional<Cut> cut = cut_of(id)) mark(id, *cut);
    }
    if (how_.empty()) return {graph_, {}};
    for (ValueId id = 0; id < size(); ++id) rewrite(id);
    return {rewriter_.finish(), std::move(whole_of_)};
  }

 private:
  static std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }
  ValueId size() const { return static_cast<ValueId>(graph_.nodes.size()); }

  std::optional<Cut> cut_of(ValueId id) const {
    if (!ir::is_elementwise(graph_[id].op)) return std::nullopt;
    std::vector<ValueId> slices;
    for (const ValueId user : users_[at(id)]) {
      if (computes(user)) return std::nullopt;
      if (graph_[user].op == Op::slice) slices.push_back(user);
    }
    if (slices.size() != 2) return std::nullopt;
    if (by_name_ &&
        std::ranges::any_of(slices, [&](ValueId slice) { return is_multiplied(slice); })) {
      return std::nullopt;
    }
    for (int turn = 0; turn < 2; ++turn, std::swap(slices[0], slices[1])) {
      const Halves how = ir::halves(graph_, slices[0], slices[1]);
      if (how != Halves::none && meet(slices[0], slices[1]))
        return Cut{how, {slices[0], slices[1]}};
    }
    return std::nullopt;
  }
  // Whether it is an operand of a product, which reads it in memory.
  bool is_multiplied(ValueId id) const {
    return std::ranges::any_of(users_[at(id)], [&](ValueId user) {
      const Op op = graph_[user].op;
      return ir::is_matmul(op) || (ir::is_view(op) && is_multiplied(user));
    });
  }
  bool computes(ValueId id) const {
    const Op op = graph_[id].op;
    return ir::is_elementwise(op) || ir::is_reduction(op) || ir::is_block(op);
  }

  // Whether an elementwise op depends on both by elementwise ops alone.
  bool meet(ValueId first, ValueId second) const {
    const std::set<ValueId> reached = reached_from(first), others = reached_from(second);
    return std::any_of(reached.begin(), reached.end(),
                       [&](ValueId id) { return others.count(id) != 0; });
  }
  std::set<ValueId> reached_from(ValueId id) const {
    std::set<ValueId> reached;
    std::vector<ValueId> open{id};
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      for (const ValueId user : users_[at(value)]) {
        if (ir::is_elementwise(graph_[user].op) && reached.insert(user).second) {
          open.push_back(user);
        }
      }
    }
    return reached;
  }

  // The elementwise work of which `root` is the last value is cut too, as far as no other work
  // reads it, if it is on the result of one matmul.
  void mark(ValueId root, const Cut& cut) {
    std::set<ValueId> chain{root};
    int num_matmuls = 0;
    for (ValueId id = root; id >= 0; --id) {
      if (ir::is_matmul(graph_[id].op) && spans(id, root) && is_read_in(id, chain)) ++num_matmuls;
      if (id == root || !ir::is_elementwise(graph_[id].op)) continue;
      if (graph_[id].type.shape.empty() || !spans_columns(id, root)) continue;
      if (is_read_in(id, chain) && is_computed_with_in(id, chain)) chain.insert(id);
    }
    if (num_matmuls != 1) return;
    for (const ValueId id : chain) how_[id] = cut.how;
    for (std::size_t half = 0; half < 2; ++half) half_of_[cut.slices[half]] = {root, half};
  }
  bool spans(ValueId id, ValueId root) const {
    return graph_[id].type.shape == graph_[root].type.shape;
  }
  bool spans_columns(ValueId id, ValueId root) const {
    return graph_[id].type.shape.back() == graph_[root].type.shape.back();
  }
  bool is_read_in(ValueId id, const std::set<ValueId>& chain) const {
    const std::vector<ValueId>& users = users_[at(id)];
    return std::any_of(users.begin(), users.end(),
                       [&](ValueId user) { return chain.count(user) != 0; });
  }
  bool is_computed_with_in(ValueId id, const std::set<ValueId>& chain) const {
    const std::vector<ValueId>& users = users_[at(id)];
    return std::all_of(users.begin(), users.end(),
                       [&](ValueId user) { return chain.count(user) != 0 || !computes(user); });
  }
  // Whether a value that is cut is also read whole.
  bool is_needed(ValueId id) const {
    const std::vector<ValueId>& users = users_[at(id)];
    return is_output_[at(id)] || std::any_of(users.begin(), users.end(), [&](ValueId user) {
             return how_.count(user) == 0 && half_of_.count(user) == 0;
           });
  }

  void rewrite(ValueId id) {
    const auto slice = half_of_.find(id);
    if (slice != half_of_.end()) {
      const auto [root, half] = slice->second;
      new_ids_.push_back(halves_.at(root)[half]);
      rewriter_.replace(new_ids_.back());
      return;
    }
    Node node = rewriter_.moved(graph_[id]);
    const auto how = how_.find(id);
    if (how != how_.end()) {
      const std::array<ValueId, 2> halves{half(id, how->second, 0), half(id, how->second, 1)};
      halves_[id] = halves;
      const Op join = how->second == Halves::behind ? Op::concat : Op::interleave;
      if (is_needed(id)) node = with_op(node, join, {halves[0], halves[1]});
    }
    new_ids_.push_back(rewriter_.keep(std::move(node)));
  }

  // The same op on halves of the operands.
  ValueId half(ValueId id, Halves how, std::size_t which) {
    Node node = graph_[id];
    for (ValueId& arg : node.args) arg = half_operand(arg, graph_[id], how, which);
    node.name = rewriter_.fresh_name(graph_[id].name, which == 0 ? "a" : "b");
    node.type.shape.clear();
    whole_of_[node.name] = graph_[id].name;
    return rewriter_.add(std::move(node));
  }

  ValueId half_operand(ValueId arg, const Node& reader, Halves how, std::size_t which) {
    const auto cut = halves_.find(arg);
    if (cut != halves_.end()) return cut->second[which];
    const ir::Shape& shape = graph_[arg].type.shape;
    if (shape.empty() || shape.back() != reader.type.shape.back()) return new_ids_[at(arg)];
    Node slice{.op = Op::slice, .args = {new_ids_[at(arg)]}};
    for (const Dim& dim : shape) slice.ranges.push_back({Dim{}, dim, 1});
    const Dim middle = *shape.back().divide(2);
    if (how == Halves::by_turns) {
      slice.ranges.back() = {static_cast<std::int64_t>(which), shape.back(), 2};
    } else {
      slice.ranges.back() =
          which == 0 ? ir::SliceRange{Dim{}, middle, 1} : ir::SliceRange{middle, shape.back(), 1};
    }
    slice.name = rewriter_.fresh_name(graph_[arg].name, which == 0 ? "a" : "b");
    return rewriter_.add(std::move(slice));
  }

  const ir::Graph& graph_;
  const bool by_name_;
  const std::vector<std::vector<ValueId>> users_;
  std::vector<bool> is_output_;
  Rewriter rewriter_;
  std::map<ValueId, Halves> how_;                               // of values that are cut
  std::map<ValueId, std::pair<ValueId, std::size_t>> half_of_;  // of slices: which half of what
  std::map<ValueId, std::array<ValueId, 2>> halves_;  // of values that are cut, in the result
  std::vector<ValueId> new_ids_;
  std::map<std::string, std::string> whole_of_;  // names of halves
};

}  // namespace

// f(a, b)[.., half] = f(a[.., half], b[.., half]), for both halves of a value f(..), its columns'
// first and second half or every other one, that meet again in one elementwise op. So a bias is
// added to the two products of a gate, and one kernel has both at hand. Where the whole of f(..) is
// needed, too, it is its halves joined.
ir::Graph push_slices(const ir::Graph& graph) {
  return SlicePusher(graph, /*by_name=*/false).run().graph;
}

PushedSlices push_slices_by_name(const ir::Graph& graph) {
  return SlicePusher(graph, /*by_name=*/true).run();
}

}  // namespace epifuse::passes
