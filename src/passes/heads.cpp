// Finds work that reads a product by halves of heads.
#include "passes/heads.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace epifuse::passes {
namespace {

using ir::Halves;
using ir::Node;
using ir::Op;
using ir::Shape;
using ir::ValueId;
using Part = PartOfHeads;

constexpr std::size_t kMostFullOperands = 4;  // that a step with a product loads beside it

std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }

// [.., H, D] of [.., H D], whatever happens to the dims before.
bool splits_columns(const Shape& from, const Shape& to) {
  const std::size_t rank = to.size();
  return rank >= 3 && !from.empty() && to[rank - 2] * to[rank - 1] == from.back();
}

// [.., S, H, D] to [.., H, S, D].
bool puts_heads_first(const Node& node) {
  const std::size_t rank = node.permutation.size();
  if (node.op != Op::transpose || rank < 3) return false;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::size_t wanted = d == rank - 3 ? rank - 2 : d == rank - 2 ? rank - 3 : d;
    if (node.permutation[d] != static_cast<int>(wanted)) return false;
  }
  return true;
}

class HeadsFinder {
 public:
  explicit HeadsFinder(const ir::Graph& graph)
      : graph_(graph), users_(ir::users(graph)), is_output_(graph.nodes.size()) {
    for (const ir::Output& output : graph.outputs) is_output_[at(output.value)] = true;
  }

  std::vector<WorkOnHeads> run() {
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.nodes.size()); ++id) {
      if (graph_[id].op != Op::matmul) continue;
      add(with_split(id).value_or(WorkOnHeads{.product = id, .heads = id}));
    }
    return std::move(found_);
  }

 private:
  const Shape& shape(ValueId id) const { return graph_[id].type.shape; }

  ValueId only_user(ValueId id) const {
    return users_[at(id)].size() == 1 && !is_output_[at(id)] ? users_[at(id)].front() : -1;
  }

  // A product of a matrix in memory whose columns are split into heads.
  std::optional<WorkOnHeads> with_split(ValueId product) const {
    const Node& node = graph_[product];
    WorkOnHeads work{.product = product};
    if (node.transpose_a || shape(node.args[1]).size() != 2) return std::nullopt;
    if (!ir::is_source(graph_[ir::storage(graph_, node.args[1])].op)) return std::nullopt;
    ValueId last = product, next = only_user(product);
    for (; next >= 0 && adds_rows(next, last); last = next, next = only_user(next)) {
      work.before.push_back(next);
    }
    if (next < 0 || graph_[next].op != Op::reshape) return std::nullopt;
    if (!splits_columns(shape(last), shape(next))) return std::nullopt;
    work.split = next;
    work.heads = only_user(next);
    work.heads_first = work.heads >= 0 && puts_heads_first(graph_[work.heads]);
    if (!work.heads_first) work.heads = next;
    return work;
  }

  // Whether an elementwise op takes nothing but `value`, rows and numbers.
  bool adds_rows(ValueId id, ValueId value) const {
    if (!ir::is_elementwise(graph_[id].op) || shape(id) != shape(value)) return false;
    return std::ranges::all_of(graph_[id].args,
                               [&](ValueId arg) { return arg == value || shape(arg).size() <= 1; });
  }

  void add(WorkOnHeads work) {
    const Shape& whole = shape(work.heads);
    const std::optional<Dim> half = whole.empty() ? std::nullopt : whole.back().divide(2);
    if (!half || half->is(0)) return;
    Shape of_half = whole;
    of_half.back() = *half;
    shapes_ = {{Part::whole, whole}, {Part::half, of_half}};
    for (const auto& [part, last] : {std::pair{Part::pairs, 2}, {Part::one_of_pair, 1}}) {
      shapes_[part] = of_half;
      shapes_[part].emplace_back(last);
    }
    how_ = Halves::none;
    parts_ = {{work.heads, {work.heads, Part::whole}}};
    spread(work.heads);
    work.how = how_;
    if (how_ != Halves::none && finish(work)) found_.push_back(std::move(work));
  }

  // Finds the part of each value behind `heads`, in order.
  void spread(ValueId heads) {
    std::set<ValueId> open(users_[at(heads)].begin(), users_[at(heads)].end());
    while (!open.empty()) {
      const ValueId id = *open.begin();
      open.erase(open.begin());
      const HeadsMember member = member_of(id);
      if (member.part == Part::none) continue;
      parts_.emplace(id, member);
      open.insert(users_[at(id)].begin(), users_[at(id)].end());
    }
  }

  Part part(ValueId id) const {
    const auto known = parts_.find(id);
    return known == parts_.end() ? Part::none : known->second.part;
  }
  bool has_shape(ValueId id, Part part) const { return shape(id) == shapes_.at(part); }

  HeadsMember member_of(ValueId id) {
    const Node& node = graph_[id];
    if (ir::is_elementwise(node.op)) return {id, part_of_elementwise(id)};
    const Part of = part(node.args[0]);
    switch (node.op) {
      case Op::slice: return half_of(id, of);
      case Op::reshape: return {id, part_of_reshape(id, of)};
      case Op::concat:
      case Op::interleave: return {id, part_of_join(node, of)};
      default: return {id, Part::none};
    }
  }

  Part part_of_elementwise(ValueId id) const {
    for (const Part all : {Part::whole, Part::half}) {
      const bool fits = std::ranges::all_of(graph_[id].args, [&](ValueId arg) {
        return part(arg) == all || part(arg) == Part::none;
      });
      if (fits && has_shape(id, all)) return all;
    }
    return Part::none;
  }

  HeadsMember half_of(ValueId id, Part of) {
    const ir::SliceRange& range = graph_[id].ranges.back();
    const bool is_first = range.start.is(0);
    const int which = is_first ? 0 : 1;
    if (!ir::is_column_slice(graph_, id)) return {id, Part::none};
    if (of == Part::pairs && has_shape(id, Part::one_of_pair)) {
      return {id, agree(Halves::by_turns, Part::one_of_pair), which};
    }
    if (of != Part::whole || !has_shape(id, Part::half)) return {id, Part::none};
    if (range.step == 1 && (is_first || range.start == shape(id).back())) {
      return {id, agree(Halves::behind, Part::half), which};
    }
    if (range.step == 2 && (is_first || range.start.is(1))) {
      return {id, agree(Halves::by_turns, Part::half), which};
    }
    return {id, Part::none};
  }

  Part part_of_reshape(ValueId id, Part of) const {
    const auto goes = [&](Part from, Part to) { return of == from && has_shape(id, to); };
    for (const auto& [a, b] :
         {std::pair{Part::whole, Part::pairs}, {Part::half, Part::one_of_pair}}) {
      if (goes(a, b)) return b;
      if (goes(b, a)) return a;
    }
    return Part::none;
  }

  Part part_of_join(const Node& node, Part of) {
    if (part(node.args[1]) != of) return Part::none;
    const bool is_concat = node.op == Op::concat;
    if (of == Part::half) return agree(is_concat ? Halves::behind : Halves::by_turns, Part::whole);
    return of == Part::one_of_pair && is_concat ? agree(Halves::by_turns, Part::pairs) : Part::none;
  }

  // The part, if halves are taken one way alone.
  Part agree(Halves how, Part part) {
    if (how_ == Halves::none) how_ = how;
    return how_ == how ? part : Part::none;
  }

  // Takes the last value that joins halves, and whose work nothing else reads.
  bool finish(WorkOnHeads& work) {
    for (auto last = parts_.rbegin(); last != parts_.rend(); ++last) {
      const bool has_all = last->second.part == Part::whole || last->second.part == Part::pairs;
      if (!has_all || last->first == work.heads) continue;
      const std::set<ValueId> needed = needed_for(last->first);
      if (!is_joined(work, needed) || !meet(work, needed)) continue;
      if (!are_read_within(needed)) continue;
      // In another order than the kernel's it is no operand of what is behind it.
      if (!work.heads_first && !users_[at(last->first)].empty()) continue;
      for (const ValueId id : needed) {
        if (id != work.heads) work.members.push_back(parts_.at(id));
      }
      return num_full_operands(needed) <= kMostFullOperands && take(needed);
    }
    return false;
  }

  std::set<ValueId> needed_for(ValueId result) const {
    std::set<ValueId> needed, open{result};
    while (!open.empty()) {
      const ValueId id = *open.begin();
      open.erase(open.begin());
      needed.insert(id);
      for (const ValueId arg : graph_[id].args) {
        if (part(arg) != Part::none && !needed.contains(arg)) open.insert(arg);
      }
    }
    return needed;
  }

  // Whether halves are joined, and, if columns are not split into heads, for more work.
  bool is_joined(const WorkOnHeads& work, const std::set<ValueId>& needed) const {
    const auto join =
        std::ranges::find_if(needed, [&](ValueId id) { return ir::is_join(graph_[id].op); });
    if (join == needed.end()) return false;
    return work.split >= 0 || ir::is_elementwise(graph_[*needed.rbegin()].op);
  }

  // Whether an op takes what is computed of both halves: else they are no gate of one kernel.
  bool meet(const WorkOnHeads& work, const std::set<ValueId>& needed) const {
    using Halved =
        std::array<unsigned, 2>;  // of each half of a value, or of a half: bits of halves
    std::map<ValueId, Halved> of{{work.heads, {1, 2}}};
    for (const ValueId id : needed) {
      if (id == work.heads) continue;
      const std::vector<ValueId>& args = graph_[id].args;
      Halved& halved = of[id];
      if (ir::is_join(graph_[id].op)) {
        halved = {of.at(args[0])[0], of.at(args[1])[0]};
      } else if (graph_[id].op == Op::slice) {
        const unsigned bits = of.at(args[0])[static_cast<std::size_t>(parts_.at(id).which)];
        halved = {bits, bits};
      } else {
        for (const ValueId arg : args) {
          if (!needed.contains(arg)) continue;
          for (std::size_t half = 0; half < 2; ++half) halved[half] |= of.at(arg)[half];
        }
        if (halved[0] == 3 || halved[1] == 3) return true;
      }
    }
    return false;
  }

  bool are_read_within(const std::set<ValueId>& needed) const {
    return std::ranges::all_of(needed, [&](ValueId id) {
      if (id == *needed.rbegin()) return true;
      return !is_output_[at(id)] && std::ranges::all_of(users_[at(id)], [&](ValueId user) {
        return needed.contains(user);
      });
    });
  }

  std::size_t num_full_operands(const std::set<ValueId>& needed) const {
    std::set<std::pair<ValueId, int>> operands;
    for (const ValueId id : needed) {
      if (!ir::is_elementwise(graph_[id].op)) continue;
      for (const ValueId arg : graph_[id].args) {
        if (needed.contains(arg) || shape(arg).size() <= 1 || shape(arg).back().is(1)) continue;
        operands.emplace(arg, 0);
        if (part(id) == Part::whole) operands.emplace(arg, 1);
      }
    }
    return operands.size();
  }

  bool take(const std::set<ValueId>& needed) {
    const auto is_taken = [&](ValueId id) { return taken_.contains(id); };
    if (std::ranges::any_of(needed, is_taken)) return false;
    taken_.insert(needed.begin(), needed.end());
    return true;
  }

  const ir::Graph& graph_;
  const std::vector<std::vector<ValueId>> users_;
  std::vector<bool> is_output_;
  std::vector<WorkOnHeads> found_;
  std::set<ValueId> taken_;
  std::map<Part, Shape> shapes_;          // of the work at hand
  std::map<ValueId, HeadsMember> parts_;  // of the work at hand
  Halves how_ = Halves::none;             // the work at hand takes halves
};

}  // namespace

std::vector<WorkOnHeads> find_work_on_heads(const ir::Graph& graph) {
  return HeadsFinder(graph).run();
}

}  // namespace epifuse::passes
