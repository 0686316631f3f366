// Cuts a framework's graph where the framework computes something in between.
#include "partition/fusion_levels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "epifuse/error.h"
#include "ir/views.h"
#include "partition/fusion_sums.h"
#include "passes/pipeline.h"
#include "passes/rewriter.h"
#include "plan/facts.h"

namespace epifuse {
namespace {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;
using plan::index;

// What of a value one level hands to another: what is only widened is cheaper before.
ValueId handed(const Graph& graph, ValueId id) {
  while (plan::widens(graph, id) && !is_source(graph[graph[id].args[0]].op)) id = graph[id].args[0];
  return id;
}

constexpr int kOpen = -1, kUnknown = -2;  // being looked at; not yet

// Those that the framework makes inputs of.
std::set<std::string_view> values_waited_for(const FusionRequest& request) {
  std::set<std::string_view> values;
  for (const auto& entry : request.after) values.insert(entry.second.begin(), entry.second.end());
  return values;
}

// How many turns of the framework come before each value.
class Levels {
 public:
  Levels(const Graph& graph, const FusionRequest& request)
      : graph_(graph),
        needs_(graph.nodes.size()),
        levels_(graph.nodes.size(), kUnknown),
        sums_beside_(graph.nodes.size()),
        is_sum_beside_(graph.nodes.size()) {
    std::unordered_map<std::string, ValueId> ids;
    for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
      ids.emplace(graph.nodes[id].name, static_cast<ValueId>(id));
    }
    for (const auto& [input, values] : request.after) {
      for (const std::string& value : values) {
        needs_[index(ids.at(input))].push_back(ids.at(value));
      }
    }
    for (std::size_t id = 0; id < graph.nodes.size(); ++id) find(static_cast<ValueId>(id));
    for (const std::vector<std::string>& part : request.whole) raise(part, ids);
    wait_for_readers(request);
    wait_with_operands();
    for (const std::vector<std::string>& part : request.whole) raise(part, ids);
    wait_with_sums(request);
  }
  int operator[](ValueId id) const { return levels_[index(id)]; }
  // Sums of what a value reads that is work on a product, with what is computed of them.
  const std::vector<ValueId>& sums_beside(ValueId reader) const {
    return sums_beside_[index(reader)];
  }
  bool is_sum_beside(ValueId id) const { return is_sum_beside_[index(id)]; }
  bool has_sums_beside(int level) const { return levels_of_sums_.contains(level); }
  int highest() const { return *std::max_element(levels_.begin(), levels_.end()); }

 private:
  const std::vector<ValueId>& needs(ValueId id) const {
    return graph_[id].op == Op::input ? needs_[index(id)] : graph_[id].args;
  }

  // Depth first, without recursion: graphs of whole models are deep.
  void find(ValueId start) {
    std::vector<ValueId> open;
    if (levels_[index(start)] == kUnknown) open.push_back(start);
    while (!open.empty()) {
      const ValueId id = open.back();
      levels_[index(id)] = kOpen;
      const ValueId next = first_unknown(id);
      if (next >= 0) {
        open.push_back(next);
        continue;
      }
      levels_[index(id)] = level_of(id);
      open.pop_back();
    }
  }

  ValueId first_unknown(ValueId id) const {
    for (const ValueId arg : needs(id)) {
      if (levels_[index(arg)] == kOpen) {
        throw ArgumentError(
            fmt::format("after: expected values that do not wait for each other, got '{}', which "
                        "waits for itself",
                        graph_[arg].name));
      }
      if (levels_[index(arg)] == kUnknown) return arg;
    }
    return -1;
  }

  int level_of(ValueId id) const {
    int level = 0;
    for (const ValueId arg : needs(id)) {
      level = std::max(level, levels_[index(arg)] + (graph_[id].op == Op::input ? 1 : 0));
    }
    return level;
  }

  // The parts of one op belong to the level of its result, which needs all of them.
  void raise(const std::vector<std::string>& parts,
             const std::unordered_map<std::string, ValueId>& ids) {
    int level = 0;
    for (const std::string& part : parts) level = std::max(level, levels_[index(ids.at(part))]);
    for (const std::string& part : parts) levels_[index(ids.at(part))] = level;
  }

  // A product, and work on it that one value after the other alone reads, can wait until the level
  // of the value that reads the last one, and be computed with it.
  void wait_for_readers(const FusionRequest& request) {
    const std::vector<std::vector<ValueId>> users = ir::users(graph_);
    std::set<std::string_view> known_before = values_waited_for(request);  // and what it takes
    for (const ir::Output& output : graph_.outputs) {
      known_before.insert(graph_[output.value].name);
    }
    const auto only_reader = [&](ValueId id) {
      const bool is_free = users[index(id)].size() == 1 && !known_before.contains(graph_[id].name);
      return is_free ? users[index(id)].front() : -1;
    };
    for (ValueId product = 0; product < static_cast<ValueId>(graph_.nodes.size()); ++product) {
      if (!ir::is_matmul(graph_[product].op)) continue;
      std::vector<ValueId> chain{product};
      ValueId reader = only_reader(product);
      while (reader >= 0 && levels_[index(reader)] == levels_[index(product)] &&
             (ir::is_elementwise(graph_[reader].op) || ir::is_view(graph_[reader].op))) {
        chain.push_back(reader);
        reader = only_reader(reader);
      }
      if (reader < 0) continue;
      for (const ValueId id : chain) levels_[index(id)] = levels_[index(reader)];
    }
  }

  // Work on operands, which needs no product, waits until the first level that reads it, and may be
  // computed there with what reads it.
  void wait_with_operands() {
    const std::vector<bool> of_products = needs_product(graph_);
    const std::vector<std::vector<ValueId>> users = ir::users(graph_);
    for (auto id = static_cast<ValueId>(graph_.nodes.size()); id-- > 0;) {
      const bool is_work = !is_source(graph_[ir::storage(graph_, id)].op);
      if (of_products[index(id)] || !is_work || users[index(id)].empty()) continue;
      int first = levels_[index(users[index(id)].front())];
      for (const ValueId user : users[index(id)]) first = std::min(first, levels_[index(user)]);
      levels_[index(id)] = std::max(levels_[index(id)], first);
    }
  }

  // Sums of a tensor wait until the first level where a product's kernel reads it.
  void wait_with_sums(const FusionRequest& request) {
    for (const SumBeside& sum : sums_beside_products(graph_, levels_, values_waited_for(request))) {
      for (const ValueId id : sum.values) {
        levels_[index(id)] = levels_[index(sum.reader)];
        levels_of_sums_.insert(levels_[index(id)]);
        is_sum_beside_[index(id)] = true;
        sums_beside_[index(sum.reader)].push_back(id);
      }
    }
  }

  const Graph& graph_;
  std::vector<std::vector<ValueId>> needs_;  // of inputs that the framework computes
  std::vector<int> levels_;
  std::vector<std::vector<ValueId>> sums_beside_;  // of each reader
  std::vector<bool> is_sum_beside_;
  std::set<int> levels_of_sums_;
};

// The values that one level hands to others or to the framework.
std::set<ValueId> handed_on(const Graph& graph, const Levels& levels,
                            const FusionRequest& request) {
  std::set<ValueId> values;
  const auto add = [&](ValueId id) {
    const ValueId origin = ir::storage(graph, id);
    if (!is_source(graph[origin].op)) values.insert(origin);
  };
  const std::set<std::string_view> waited_for = values_waited_for(request);
  for (const ir::Output& output : graph.outputs) add(output.value);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto id = static_cast<ValueId>(i);
    if (waited_for.contains(graph[id].name)) add(id);
    for (const ValueId arg : graph[id].args) {
      if (levels[arg] < levels[id]) add(handed(graph, arg));
    }
  }
  return values;
}

// One level as a graph of its own.
class LevelGraph {
 public:
  LevelGraph(const Graph& from, const Levels& levels, int level)
      : from_(from), levels_(levels), level_(level), to_{from.name, {}, {}} {}

  Graph take(const std::set<ValueId>& results) {
    for (std::size_t i = 0; i < from_.nodes.size(); ++i) {  // inputs come first
      const auto id = static_cast<ValueId>(i);
      if (!is_here(id)) continue;
      for (const ValueId arg : from_[id].args) {
        if (!is_here(arg) && from_[arg].op != Op::constant) add_input(handed_to(id, arg));
      }
    }
    for (std::size_t i = 0; i < from_.nodes.size(); ++i) {
      const auto id = static_cast<ValueId>(i);
      if (!is_here(id) || levels_.is_sum_beside(id)) continue;
      add_once(id);
      for (const ValueId sum : levels_.sums_beside(id)) add_once(sum);
    }
    for (const ValueId id : results) {
      if (levels_[id] == level_) to_.outputs.push_back({from_[id].name, new_id_.at(id)});
    }
    return std::move(to_);
  }

 private:
  bool is_here(ValueId id) const { return levels_[id] == level_ && !is_source(from_[id].op); }

  // What a value reads of another level: a sum beside a product, and what reads beside the product,
  // the same value, not a reshape of it each.
  ValueId handed_to(ValueId id, ValueId arg) const {
    const bool is_shared = levels_.is_sum_beside(id) || !levels_.sums_beside(id).empty();
    while (is_shared && is_reshape_of_value(arg)) arg = from_[arg].args[0];
    return handed(from_, arg);
  }
  bool is_reshape_of_value(ValueId id) const {
    return from_[id].op == Op::reshape && !is_source(from_[from_[id].args[0]].op);
  }

  void add_input(ValueId id) {
    if (new_id_.contains(id)) return;
    Node node;
    node.op = from_[id].op == Op::scalar ? Op::scalar : Op::input;
    node.name = from_[id].name;
    node.type = {from_[id].type.dtype, from_[id].type.shape, from_[id].type.strides};
    push(id, std::move(node));
  }

  void add(ValueId id) {
    Node node = from_[id];
    for (ValueId& arg : node.args) {
      const bool is_copied = from_[arg].op == Op::constant || handed_to(id, arg) != arg;
      if (is_copied && !new_id_.contains(arg)) add_copy(arg, handed_to(id, arg));
      arg = new_id_.at(arg);
    }
    push(id, std::move(node));
  }

  // What another level has, of what it hands over.
  void add_copy(ValueId id, ValueId origin) {
    if (from_[id].op != Op::reshape) return add(id);
    Node node = from_[id];  // several reshapes are one
    node.args = {new_id_.at(origin)};
    push(id, std::move(node));
  }

  // With its operands: what a sum reads may come behind the one that it stands behind.
  void add_once(ValueId id) {
    if (new_id_.contains(id)) return;
    for (const ValueId arg : from_[id].args) {
      if (is_here(arg)) add_once(arg);
    }
    add(id);
  }

  void push(ValueId id, Node node) {
    new_id_.emplace(id, static_cast<ValueId>(to_.nodes.size()));
    to_.nodes.push_back(std::move(node));
  }

  const Graph& from_;
  const Levels& levels_;
  const int level_;
  Graph to_;
  std::map<ValueId, ValueId> new_id_;
};

// Results as the work on them has them, without the views that passes put behind.
Graph with_inner_results(Graph graph) {
  const auto is_view = [&](ValueId id) {
    return graph[id].op == Op::reshape || graph[id].op == Op::transpose;
  };
  for (ir::Output& output : graph.outputs) {
    while (is_view(output.value) && graph[output.value].name != output.name) {
      output.value = graph[output.value].args[0];
    }
  }
  return passes::dead_code(graph);
}

// A magnitude widens what it is of for itself, also where others read that: the framework reads the
// narrow value, and widens it as it does.
Graph with_own_casts(const Graph& graph) {
  const std::vector<std::vector<ValueId>> users = ir::users(graph);
  passes::Rewriter rewriter(graph);
  for (const Node& node : graph.nodes) {
    Node moved = rewriter.moved(node);
    const bool is_shared = node.op == Op::abs && plan::widens(graph, node.args[0]) &&
                           users[index(node.args[0])].size() > 1;
    if (is_shared) {
      Node cast = rewriter[moved.args[0]];
      cast.name = rewriter.fresh_name(cast.name, "wide");
      moved.args[0] = rewriter.add(std::move(cast));
    }
    rewriter.keep(std::move(moved));
  }
  return rewriter.finish();
}

}  // namespace

std::vector<bool> needs_product(const ir::Graph& graph) {
  std::vector<bool> needs(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    needs[i] = ir::is_matmul(node.op) || std::ranges::any_of(node.args, [&](ValueId arg) {
                 return static_cast<bool>(needs[index(arg)]);
               });
  }
  return needs;
}

std::vector<FusionLevel> fusion_levels(const ir::Graph& graph, const FusionRequest& request,
                                       const passes::TakesHeads& takes_heads) {
  const Levels levels(graph, request);
  const std::set<ValueId> results = handed_on(graph, levels, request);
  std::set<std::string> parts;  // of ops of the framework, which are one with no other's
  for (const auto& whole : request.whole) parts.insert(whole.begin(), whole.end());
  std::vector<FusionLevel> all;
  for (int level = 0; !graph.nodes.empty() && level <= levels.highest(); ++level) {
    ir::Graph one = LevelGraph(graph, levels, level).take(results);
    if (one.outputs.empty()) continue;
    passes::ChangedHeads heads = passes::halves_of_heads_by_name(
        passes::block_maxima(passes::sink_reshapes_of_operands(one)), takes_heads);
    passes::PushedSlices pushed = passes::push_slices_by_name(heads.graph);
    pushed.whole_of.merge(heads.whole_of);
    // A sum and what reads beside a product have the same tensor in one shape, as one value.
    if (!pushed.whole_of.empty() || levels.has_sums_beside(level)) {
      pushed.graph = passes::common_subexpressions_but(pushed.graph, parts);
    }
    all.push_back({with_own_casts(with_inner_results(pushed.graph)), std::move(pushed.whole_of),
                   std::move(heads.work)});
  }
  return all;
}

}  // namespace epifuse
