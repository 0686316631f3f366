// A kernel's own graph, cut out of a framework's.
#include "partition/fusion_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <variant>

#include "epifuse/error.h"
#include "ir/strides.h"
#include "ir/text.h"
#include "ir/views.h"
#include "plan/facts.h"

namespace epifuse {
namespace {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

// Every size that is not known now becomes a symbol of its own: kernels are told apart by what they
// do, not by how the framework calls its sizes.
class Renamer {
 public:
  Dim operator()(const Dim& dim) {
    if (dim.constant()) return dim;
    const auto [entry, is_new] = symbols_.try_emplace(dim.str(), "");
    if (is_new) entry->second = fmt::format("d{}", symbols_.size() - 1);
    return Dim(entry->second);
  }
  ir::Shape operator()(const ir::Shape& shape) {
    ir::Shape renamed;
    for (const Dim& dim : shape) renamed.push_back((*this)(dim));
    return renamed;
  }
  std::size_t num_symbols() const { return symbols_.size(); }

 private:
  std::map<std::string, std::string> symbols_;
};

class Cutter {
 public:
  Cutter(const FrameworkPlan& framework, const std::vector<ValueId>& values,
         const FrameworkValues& framework_values)
      : framework_(framework),
        from_(framework.plan().graph),
        values_(values),
        inside_(values.begin(), values.end()),
        framework_values_(framework_values) {
    kernel_.graph.name = "kernel";
    for (const ValueId id : values) {
      if (ir::is_scaled_matmul(from_[id].op)) find_views_of_scales(from_[id]);
      if (ir::is_matmul(from_[id].op)) find_view_of_heads(from_[id].args[1]);
    }
  }

  CutResult run() {
    for (const ValueId id : values_) {
      for (const ValueId arg : from_[id].args) find_inputs(arg);
    }
    for (const ValueId id : inputs_) add_input(id);
    if (!knows_inputs_) {
      return {{},
              plan::WhyNot{"needs_copy", "An operand needs a copy, which is no part of a kernel."}};
    }
    const std::size_t num_symbols = rename_.num_symbols();
    for (const ValueId id : values_) {
      for (const ValueId arg : from_[id].args) add_view(arg);
      add(id);
    }
    for (const ValueId id : framework_.results(inside_)) {
      if (framework_.is_read_outside(id, inside_)) add_output(id);
    }
    if (rename_.num_symbols() != num_symbols) {
      return {{},
              plan::WhyNot{"size_not_known",
                           "A size inside of the kernel is not the size of any of its inputs."}};
    }
    return {std::move(kernel_), std::nullopt};
  }

 private:
  // Whether `id` is computed inside, or a view of what is.
  bool is_inside(ValueId id) const { return inside_.contains(ir::storage(from_, id)); }

  // What the framework hands over for `id`: copies that plans make are the kernel's business.
  ValueId handed(ValueId id) const {
    const Node* node = &from_[id];
    while (node->op == Op::cast && !framework_values_.contains(node->name)) {
      id = node->args[0];
      node = &from_[id];
    }
    return id;
  }

  // Block scales lie anyhow, so a kernel takes those of the framework as they are.
  void find_views_of_scales(const Node& product) {
    const ir::BlockScales scales = ir::block_scales(from_, product);
    for (ValueId id : {scales.a, scales.b}) {
      for (; from_[id].op == Op::transpose || from_[id].op == Op::slice; id = from_[id].args[0]) {
        own_views_.insert(id);
      }
    }
  }

  // Weights lie anyhow too: as heads they are no view that the framework has.
  void find_view_of_heads(ValueId weight) {
    if (from_[weight].op != Op::transpose || framework_values_.contains(from_[weight].name)) return;
    own_views_.insert({weight, from_[weight].args[0]});
  }

  // A view that is part of the kernel: a slice that the framework has not, rows that are looked up,
  // one of block scales, or heads of a weight.
  bool is_own_view(ValueId id) const {
    if (ir::is_lookup(from_[id].op) || own_views_.contains(id)) return true;
    return from_[id].op == Op::slice && !framework_values_.contains(from_[id].name);
  }

  void find_inputs(ValueId arg) {
    if (is_inside(arg) || from_[arg].op == Op::constant) return;
    if (is_own_view(arg)) {
      for (const ValueId operand : from_[arg].args) find_inputs(operand);
      return;
    }
    const ValueId id = handed(arg);
    if (is_own_view(id)) return find_inputs(id);
    if (std::find(inputs_.begin(), inputs_.end(), id) == inputs_.end()) inputs_.push_back(id);
  }

  // Whether the framework has the value: it has an input, and not what is a part of one op's work.
  bool is_known(ValueId id) const {
    const ValueId operand = from_[id].args[0];
    return framework_values_.contains(from_[id].name) && from_[operand].op != Op::input;
  }

  void add_input(ValueId id) {
    FusionTensor tensor{from_[id].name, std::nullopt};
    ValueId named = id;
    while (from_[named].op == Op::reshape && !is_known(named)) named = from_[named].args[0];
    const auto known = framework_values_.find(from_[named].name);
    if (known == framework_values_.end()) {
      knows_inputs_ = false;
      return;
    }
    tensor.value = known->first;
    if (known->second != from_[id].type.shape) tensor.shape = from_[id].type.shape;
    kernel_.inputs.push_back(std::move(tensor));
    Node node;
    node.name = from_[id].name;
    node.type = {from_[id].type.dtype, rename_(from_[id].type.shape),
                 rename_(from_[id].type.strides)};
    new_id_[id] = ir::append(kernel_.graph, std::move(node));
  }

  void add_view(ValueId id) {
    if (inside_.contains(id)) return;
    if (from_[id].op == Op::constant) {
      if (!new_id_.contains(id)) add(id);
    } else if (!is_inside(id) && is_own_view(handed(id)) && handed(id) != id) {
      add_view(handed(id));
    } else if (is_inside(id) || is_own_view(id)) {
      if (new_id_.contains(id)) return;
      for (const ValueId arg : from_[id].args) add_view(arg);
      add(id);
    }
  }

  void add(ValueId id) {
    Node node = from_[id];
    for (ValueId& arg : node.args) {
      arg = new_id_.at(is_inside(arg) || is_own_view(arg) ? arg : handed(arg));
    }
    node.type.shape = rename_(node.type.shape);
    for (ir::SliceRange& range : node.ranges) {
      range.start = rename_(range.start);
      range.stop = rename_(range.stop);
    }
    new_id_[id] = ir::append(kernel_.graph, std::move(node));
  }

  void add_output(ValueId id) {
    const std::string name = fmt::format("y{}", kernel_.outputs.size());
    kernel_.graph.outputs.push_back({name, new_id_.at(id)});
    kernel_.outputs.push_back({from_[id].name, from_[id].type.shape});
  }

  const FrameworkPlan& framework_;
  const Graph& from_;
  const std::vector<ValueId>& values_;
  const std::set<ValueId> inside_;
  const FrameworkValues& framework_values_;
  CutKernel kernel_;
  std::vector<ValueId> inputs_;
  std::set<ValueId> own_views_;
  std::map<ValueId, ValueId> new_id_;
  Renamer rename_;
  bool knows_inputs_ = true;
};

}  // namespace

ir::Graph without_names(ir::Graph graph) {
  std::map<char, int> counts;
  for (Node& node : graph.nodes) {
    const char letter = node.op == Op::input         ? 'x'
                        : node.op == Op::constant    ? 'c'
                        : plan::is_computed(node.op) ? 't'
                                                     : 'v';
    node.name = fmt::format("{}{}", letter, counts[letter]++);
    node.type.strides.clear();
  }
  return graph;
}

CutResult cut_kernel(const FrameworkPlan& framework, const std::vector<ValueId>& values,
                     const FrameworkValues& framework_values) {
  try {
    return Cutter(framework, values, framework_values).run();
  } catch (const GraphError& error) {  // sizes that only the framework knows to be equal
    return {{}, plan::WhyNot{"size_not_known", error.what()}};
  }
}

ir::Graph with_strides_of(const ir::Graph& cut, const ir::Graph& kernel) {
  std::vector<std::vector<ir::Stride>> strides;
  for (const ir::Node& node : cut.nodes) {
    if (node.op == ir::Op::input) strides.push_back(ir::strides_of(node.type.strides));
  }
  return ir::parse(ir::print(ir::with_strides(kernel, strides)));
}

plan::Plan with_framework_names(plan::Plan plan, const ir::Graph& nameless, const ir::Graph& cut) {
  std::map<std::string_view, std::string_view> framework_names;
  for (std::size_t i = 0; i < nameless.nodes.size(); ++i) {
    framework_names.emplace(nameless.nodes[i].name, cut.nodes[i].name);
  }
  const auto rename = [&](std::string& name) {
    const auto found = framework_names.find(name);
    if (found != framework_names.end()) name = found->second;
  };
  for (ir::Node& node : plan.graph.nodes) rename(node.name);
  for (plan::Step& step : plan.steps) {
    plan::Epilogue& epilogue =
        std::visit([](auto& any) -> plan::Epilogue& { return any.epilogue; }, step);
    for (plan::Load& load : epilogue.loads) rename(load.name);
    for (plan::Store& store : epilogue.stores) rename(store.name);
  }
  return plan;
}

}  // namespace epifuse
