// halves_of_heads: computes what reads a product by halves of heads on both halves of each head.
#include <array>
#include <map>
#include <string>
#include <utility>

#include "passes/heads.h"
#include "passes/pipeline.h"
#include "passes/rewriter.h"

namespace epifuse::passes {
namespace {

using ir::Halves;
using ir::Node;
using ir::Op;
using ir::Shape;
using ir::ValueId;
using Pair = std::array<ValueId, 2>;

NamedWorkOnHeads named(const ir::Graph& graph, const WorkOnHeads& work) {
  NamedWorkOnHeads names{
      graph[work.product].name, graph[work.members.back().value].name, {}, {}, work.heads_first};
  names.values.push_back(names.product);
  for (const ValueId id : work.before) names.values.push_back(graph[id].name);
  for (const HeadsMember& member : work.members) {
    const Node& node = graph[member.value];
    if (!ir::is_view(node.op)) names.values.push_back(node.name);
  }
  if (work.split >= 0) names.split = graph[work.split].type.shape;
  return names;
}

class HeadsRewriter {
 public:
  HeadsRewriter(const ir::Graph& graph, const std::vector<WorkOnHeads>& all)
      : graph_(graph), rewriter_(graph) {
    for (const WorkOnHeads& work : all) {
      work_of_[work.members.back().value] = &work;
      changed_.work.push_back(named(graph, work));
    }
  }

  ChangedHeads run() {
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.nodes.size()); ++id) {
      const auto work = work_of_.find(id);
      Node node = rewriter_.moved(graph_[id]);
      if (work != work_of_.end()) node = joined(*work->second, node);
      new_id_.push_back(rewriter_.keep(std::move(node)));
    }
    changed_.graph = dead_code(rewriter_.finish());
    return std::move(changed_);
  }

 private:
  const Shape& shape(ValueId id) const { return rewriter_[id].type.shape; }
  ValueId moved(ValueId id) const { return new_id_[static_cast<std::size_t>(id)]; }

  // What the result becomes. Pairs and another order are views of what a kernel stores, which keeps
  // the name.
  Node joined(const WorkOnHeads& work, const Node& result) {
    const Pair halves = rewrite(work);
    const Op join = work.how == Halves::behind ? Op::concat : Op::interleave;
    const bool is_whole = work.members.back().part == PartOfHeads::whole;
    if (is_whole && work.heads_first) return with_op(result, join, {halves[0], halves[1]});
    Node stored{.op = join, .name = result.name, .args = {halves[0], halves[1]}};
    ValueId id = rewriter_.add(std::move(stored));
    if (!work.heads_first) id = swapped(id);
    if (is_whole) {
      Node view = rewriter_[id];
      view.name = rewriter_.fresh_name(result.name, "view");
      return view;
    }
    Node view = with_op(result, Op::reshape, {id});
    view.name = rewriter_.fresh_name(result.name, "view");
    return view;
  }

  // [.., a, b, D] as [.., b, a, D], for what other dims it repeats.
  ValueId swapped(ValueId id) {
    Shape to = shape(id);
    const std::size_t rank = to.size();
    if (rank < 2 || (rank == 2 && to.front().is(1))) return id;
    if (rank == 2) return reshaped(id, {to[0], 1, to[1]});
    std::swap(to[rank - 3], to[rank - 2]);
    if (to[rank - 3].is(1) || to[rank - 2].is(1)) return reshaped(id, to);
    Node view{.op = Op::transpose, .args = {id}};
    for (std::size_t d = 0; d < rank; ++d) view.permutation.push_back(static_cast<int>(d));
    std::swap(view.permutation[rank - 3], view.permutation[rank - 2]);
    view.name = rewriter_.fresh_name(rewriter_[id].name, "swapped");
    return rewriter_.add(std::move(view));
  }

  // Both halves of the result.
  Pair rewrite(const WorkOnHeads& work) {
    halves_.clear();
    half_.clear();
    const ValueId heads = work.split < 0 ? moved(work.heads) : heads_of(work);
    const std::string& name = graph_[work.heads].name;
    halves_[work.heads] = {slice(heads, work.how, 0, name), slice(heads, work.how, 1, name)};
    for (const HeadsMember& member : work.members) compute(work, member);
    return halves_.at(work.members.back().value);
  }

  void compute(const WorkOnHeads& work, const HeadsMember& member) {
    const Node& node = graph_[member.value];
    const auto whole = halves_.find(node.args[0]);
    const auto half = half_.find(node.args[0]);
    if (ir::is_elementwise(node.op)) {
      if (member.part == PartOfHeads::half) {
        half_[member.value] = computed(node, work, 0, false);
      } else {
        halves_[member.value] = {computed(node, work, 0, true), computed(node, work, 1, true)};
      }
    } else if (ir::is_join(node.op)) {
      halves_[member.value] = {half->second, half_.at(node.args[1])};
    } else if (node.op == Op::slice) {
      half_[member.value] = whole->second[static_cast<std::size_t>(member.which)];
    } else if (whole != halves_.end()) {
      halves_[member.value] = whole->second;
    } else {
      half_[member.value] = half->second;
    }
  }

  // The same op on a half of its operands, or on the halves that it takes.
  ValueId computed(const Node& node, const WorkOnHeads& work, std::size_t which, bool is_whole) {
    Node half = node;
    for (ValueId& arg : half.args) {
      const auto known = halves_.find(arg);
      const auto known_half = half_.find(arg);
      if (known != halves_.end()) {
        arg = known->second[which];
      } else if (known_half != half_.end()) {
        arg = known_half->second;
      } else {
        arg = work.heads_first ? moved(arg) : swapped(moved(arg));
        if (is_whole) arg = half_of(arg, work.how, which);
      }
    }
    half.type.shape.clear();
    return add(std::move(half), node.name, which == 0 ? "a" : "b");
  }

  // A half of an operand that is no part of the work.
  ValueId half_of(ValueId operand, Halves how, std::size_t which) {
    if (shape(operand).empty() || shape(operand).back().is(1)) return operand;
    const Node node = rewriter_[operand];
    const Op join = how == Halves::behind ? Op::concat : Op::interleave;
    if (node.op == join) return node.args[which];
    if (node.op == Op::reshape && rewriter_[node.args[0]].op == join) {
      const ValueId half = rewriter_[node.args[0]].args[which];
      Shape to = node.type.shape;
      to.back() = shape(half).back();
      return reshaped(half, to);
    }
    return slice(operand, how, which, node.name);
  }

  ValueId slice(ValueId operand, Halves how, std::size_t which, const std::string& name) {
    Node node{.op = Op::slice, .args = {operand}};
    for (const Dim& dim : shape(operand)) node.ranges.push_back({Dim{}, dim, 1});
    const Dim all = shape(operand).back(), middle = *all.divide(2);
    if (how == Halves::by_turns) {
      node.ranges.back() = {static_cast<std::int64_t>(which), all, 2};
    } else {
      node.ranges.back() =
          which == 0 ? ir::SliceRange{Dim{}, middle, 1} : ir::SliceRange{middle, all, 1};
    }
    node.name = rewriter_.fresh_name(name, which == 0 ? "a" : "b");
    return rewriter_.add(std::move(node));
  }

  // The product and the work on all columns, for each head: [.., H, S, D].
  ValueId heads_of(const WorkOnHeads& work) {
    Shape rows = graph_[work.split].type.shape;
    const Dim width = rows.back();
    rows.pop_back();
    const Dim num_heads = rows.back();
    rows.pop_back();
    Node node = graph_[work.product];
    node.args = {rows_of(moved(node.args[0]), rows), weight_of(node, num_heads, width)};
    node.transpose_b = graph_[work.product].transpose_b;
    node.type.shape.clear();
    ValueId last = add(std::move(node), graph_[work.product].name, "heads");
    ValueId before = work.product;
    for (const ValueId id : work.before) {
      Node op = graph_[id];
      for (ValueId& arg : op.args) {
        arg = arg == before ? last : row_of(moved(arg), num_heads, width);
      }
      op.type.shape.clear();
      last = add(std::move(op), graph_[id].name, "heads");
      before = id;
    }
    return last;
  }

  // [.., S, K] as [.., 1, S, K]: the same rows for each head.
  ValueId rows_of(ValueId a, const Shape& rows) {
    Shape to(rows.begin(), rows.end() - 1);
    if (!to.empty()) to.emplace_back(1);
    to.push_back(rows.back());
    to.push_back(shape(a).back());
    return reshaped(a, to);
  }

  // [H D, K] as [H, D, K], or [K, H D] as [H, K, D].
  ValueId weight_of(const Node& product, const Dim& num_heads, const Dim& width) {
    const ValueId weight = moved(product.args[1]);
    if (product.transpose_b) return reshaped(weight, {num_heads, width, shape(weight).back()});
    Node view{.op = Op::transpose, .permutation = {1, 0, 2}};
    view.args = {reshaped(weight, {shape(weight).front(), num_heads, width})};
    view.name = rewriter_.fresh_name(rewriter_[weight].name, "heads");
    return rewriter_.add(std::move(view));
  }

  // A row [H D] as [H, 1, D]; casts go before it, so that a kernel may do them.
  ValueId row_of(ValueId row, const Dim& num_heads, const Dim& width) {
    if (shape(row).empty() || shape(row).front().is(1)) return row;
    if (rewriter_[row].op != Op::cast) return reshaped(row, {num_heads, 1, width});
    Node cast = rewriter_[row];
    const std::string name = cast.name;
    cast.args = {row_of(cast.args[0], num_heads, width)};
    cast.type.shape.clear();
    return add(std::move(cast), name, "heads");
  }

  ValueId reshaped(ValueId id, const Shape& to) {
    if (shape(id) == to) return id;
    if (rewriter_[id].op == Op::reshape) id = rewriter_[id].args[0];
    if (shape(id) == to) return id;
    Node view{.op = Op::reshape, .args = {id}};
    view.name = rewriter_.fresh_name(rewriter_[id].name, "view");
    view.type.shape = to;
    return rewriter_.add(std::move(view));
  }

  ValueId add(Node node, const std::string& of, std::string_view what) {
    node.name = rewriter_.fresh_name(of, what);
    changed_.whole_of[node.name] = of;
    return rewriter_.add(std::move(node));
  }

  const ir::Graph& graph_;
  Rewriter rewriter_;
  ChangedHeads changed_;
  std::map<ValueId, const WorkOnHeads*> work_of_;  // by result
  std::map<ValueId, Pair> halves_;                 // of the work at hand, in the result
  std::map<ValueId, ValueId> half_;                // of what is a half in the work at hand
  std::vector<ValueId> new_id_;
};

}  // namespace

// f(h[.., a half], h[.., the other half]), joined to heads [.., H, S, D] again, where h is a
// product [.., S, H D] that is split into heads: the product of each head, and f on both halves of
// it. So rotary positions are a gate's work, which one kernel does. Products of heads stay.
ir::Graph halves_of_heads(const ir::Graph& graph) {
  return halves_of_heads_by_name(graph,
                                 [](const NamedWorkOnHeads& work) { return work.heads_first; })
      .graph;
}

ChangedHeads halves_of_heads_by_name(const ir::Graph& graph, const TakesHeads& takes) {
  const ir::Graph live = dead_code(graph);
  std::vector<WorkOnHeads> all = find_work_on_heads(live);
  std::erase_if(all, [&](const WorkOnHeads& work) { return !takes(named(live, work)); });
  if (all.empty()) return {graph, {}, {}};
  return HeadsRewriter(live, all).run();
}

}  // namespace epifuse::passes
