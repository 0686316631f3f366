// Finds sums of what a product's kernel reads.
#include "partition/fusion_sums.h"

#include <algorithm>
#include <optional>

#include "ir/views.h"
#include "plan/facts.h"

namespace epifuse {
namespace {

using ir::Node;
using ir::Op;
using ir::ValueId;
using plan::index;

constexpr std::size_t kMostValues = 8;  // computed of a reduction

class Finder {
 public:
  Finder(const ir::Graph& graph, const std::vector<int>& levels,
         const std::set<std::string_view>& waited_for)
      : graph_(graph),
        levels_(levels),
        waited_for_(waited_for),
        users_(ir::users(graph)),
        readers_(graph.nodes.size()),
        of_product_(graph.nodes.size()),
        of_sum_(graph.nodes.size()) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      const bool is_product = ir::is_matmul(node.op);
      const bool is_work = ir::is_elementwise(node.op) || node.op == Op::reshape;
      for (const ValueId arg : node.op == Op::reshape ? std::vector<ValueId>{} : node.args) {
        readers_[index(unshaped(arg))].push_back(static_cast<ValueId>(i));
      }
      of_product_[i] = is_product || (is_work && any_arg_of(static_cast<ValueId>(i), of_product_));
      of_sum_[i] = ir::is_reduction(node.op) ||
                   (!is_product && any_arg_of(static_cast<ValueId>(i), of_sum_));
    }
  }

  std::vector<SumBeside> run() const {
    std::vector<SumBeside> found;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto id = static_cast<ValueId>(i);
      if (graph_[id].op != Op::col_sum) continue;
      std::vector<ValueId> values = computed_of(id);
      const std::optional<ValueId> reader = values.empty() ? std::nullopt : reader_of(id, values);
      if (reader) found.push_back({std::move(values), *reader});
    }
    return found;
  }

 private:
  ValueId unshaped(ValueId id) const {
    while (graph_[id].op == Op::reshape) id = graph_[id].args[0];
    return id;
  }

  // Whether an operand of the value's own level has a property.
  bool any_arg_of(ValueId id, const std::vector<bool>& property) const {
    return std::ranges::any_of(graph_[id].args, [&](ValueId arg) {
      return property[index(arg)] && levels_[index(arg)] == levels_[index(id)];
    });
  }

  // The reduction and all that needs it, in graph order; nothing if anything waits for that.
  std::vector<ValueId> computed_of(ValueId reduction) const {
    std::vector<ValueId> values{reduction};
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (waited_for_.contains(graph_[values[i]].name) || values.size() > kMostValues) return {};
      for (const ValueId user : users_[index(values[i])]) {
        const Op op = graph_[user].op;
        const bool is_later = levels_[index(user)] != levels_[index(reduction)];
        if (is_later || (!ir::is_elementwise(op) && !ir::is_view(op))) return {};
        if (std::ranges::find(values, user) == values.end()) values.push_back(user);
      }
    }
    std::ranges::sort(values);
    return values;
  }

  // The first to read, as an epilogue does, what the reduction sums, else the first product of it.
  // None where that is work on a product itself, whose kernel can sum it.
  std::optional<ValueId> reader_of(ValueId reduction, const std::vector<ValueId>& values) const {
    const ValueId summed = unshaped(graph_[reduction].args[0]);
    if (of_product_[index(summed)] && !of_sum_[index(summed)]) return std::nullopt;
    std::optional<ValueId> first, operand;
    const auto is_earlier = [&](ValueId id, const std::optional<ValueId>& other) {
      return !other || levels_[index(id)] < levels_[index(*other)];
    };
    for (const ValueId user : readers_[index(summed)]) {
      if (levels_[index(user)] < levels_[index(reduction)]) continue;
      if (std::ranges::find(values, user) != values.end()) continue;
      if (reads_beside_product(user, summed) && is_earlier(user, first)) first = user;
      if (multiplies_as_it_lies(user, summed) && is_earlier(user, operand)) operand = user;
    }
    return first ? first : operand;
  }

  // Whether a product's result is as large as its operand, whose elements a kernel reads once more.
  bool multiplies_as_it_lies(ValueId product, ValueId operand) const {
    const Node& node = graph_[product];
    return node.op == Op::matmul && !node.transpose_a && unshaped(node.args[0]) == operand &&
           graph_[node.args[0]].type.shape == node.type.shape;
  }

  bool reads_beside_product(ValueId reader, ValueId read) const {
    if (!ir::is_elementwise(graph_[reader].op)) return false;
    bool reads_all = false, has_product = false;
    for (const ValueId arg : graph_[reader].args) {
      const bool is_read = unshaped(arg) == read;
      reads_all |= is_read && graph_[arg].type.shape == graph_[reader].type.shape;
      has_product |=
          !is_read && of_product_[index(arg)] && levels_[index(arg)] == levels_[index(reader)];
    }
    return reads_all && has_product;
  }

  const ir::Graph& graph_;
  const std::vector<int>& levels_;
  const std::set<std::string_view>& waited_for_;
  const std::vector<std::vector<ValueId>> users_;
  std::vector<std::vector<ValueId>> readers_;  // of what reshapes show
  std::vector<bool> of_product_;               // a product, or elementwise work of its level on one
  std::vector<bool> of_sum_;  // a reduction, or work of its level on one, without a product
};

}  // namespace

std::vector<SumBeside> sums_beside_products(const ir::Graph& graph, const std::vector<int>& levels,
                                            const std::set<std::string_view>& waited_for) {
  return Finder(graph, levels, waited_for).run();
}

}  // namespace epifuse
