// Builds the graph that a pass returns.
#include "passes/rewriter.h"

#include <fmt/core.h>

#include <utility>

#include "base/check.h"

namespace epifuse::passes {

Rewriter::Rewriter(const ir::Graph& source) : source_(source) {
  built_.name = source.name;
  built_.nodes.reserve(source.nodes.size());
  value_of_.reserve(source.nodes.size());
  for (const ir::Node& node : source.nodes) names_.insert(node.name);
}

ir::Node Rewriter::moved(const ir::Node& node) const {
  ir::Node result = node;
  for (ir::ValueId& arg : result.args) arg = value_of_[static_cast<std::size_t>(arg)];
  return result;
}

ir::ValueId Rewriter::keep(ir::Node node) {
  const auto id = static_cast<ir::ValueId>(built_.nodes.size());
  built_.nodes.push_back(std::move(node));
  replace(id);
  return id;
}

void Rewriter::replace(ir::ValueId value) {
  EPIFUSE_CHECK(value_of_.size() < source_.nodes.size(), "more values than the source graph has");
  EPIFUSE_CHECK(same_type(built_[value].type, source_.nodes[value_of_.size()].type),
                "a rewrite changes the type of " + source_.nodes[value_of_.size()].name);
  value_of_.push_back(value);
}

ir::ValueId Rewriter::add(ir::Node helper) {
  helper.type = ir::infer_type(built_, helper);
  built_.nodes.push_back(std::move(helper));
  return static_cast<ir::ValueId>(built_.nodes.size()) - 1;
}

ir::ValueId Rewriter::add_constant(double value) {
  built_.nodes.push_back({.op = ir::Op::constant, .name = numbered_name("c"), .value = value});
  return static_cast<ir::ValueId>(built_.nodes.size()) - 1;
}

ir::Graph Rewriter::finish() {
  EPIFUSE_CHECK(value_of_.size() == source_.nodes.size(), "a node was neither kept nor replaced");
  for (const ir::Output& output : source_.outputs) {
    built_.outputs.push_back({output.name, value_of_[static_cast<std::size_t>(output.value)]});
  }
  return std::move(built_);
}

// Long names are cut, so that the result stays in the limits of the language.
std::string Rewriter::fresh_name(std::string_view root, std::string_view what) {
  constexpr std::size_t kMaxStemLength = 150;
  return numbered_name(fmt::format("{}_{}", root.substr(0, kMaxStemLength), what));
}

// Counts on from the last number tried: a stem may be used for every node of the graph.
std::string Rewriter::numbered_name(const std::string& stem) {
  std::size_t& number = num_of_stem_[stem];
  std::string name;
  do {
    name = fmt::format("{}{}", stem, number++);
  } while (!names_.insert(name).second);
  return name;
}

bool same_type(const ir::TensorType& a, const ir::TensorType& b) {
  return a.dtype == b.dtype && a.shape == b.shape;
}

ir::Node with_op(const ir::Node& node, ir::Op op, std::vector<ir::ValueId> args) {
  ir::Node result{.op = op, .name = node.name, .args = std::move(args)};
  result.type.dtype = node.type.dtype;
  result.type.shape = node.type.shape;
  return result;
}

}  // namespace epifuse::passes
