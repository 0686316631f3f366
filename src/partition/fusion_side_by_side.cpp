// Products of one operand that are one launch.
#include "partition/fusion_side_by_side.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "codegen/side_by_side.h"
#include "plan/facts.h"

namespace epifuse {
namespace {

using ir::ValueId;

bool go_together(const LoneProduct& x, const LoneProduct& y) {
  return codegen::multiply_alike(x.step->gemm, y.step->gemm) && x.epilogue == y.epilogue;
}

}  // namespace

std::size_t most_side_by_side(const targets::TargetInfo& target, const std::string& family) {
  const codegen::KernelFamily* const found = codegen::family_side_by_side(target, family);
  return found == nullptr ? 0 : found->side_by_side->most;
}

std::set<ValueId> values_of(const std::vector<LoneProduct>& products) {
  std::set<ValueId> values;
  for (const LoneProduct& each : products) values.insert(each.values.begin(), each.values.end());
  return values;
}

std::vector<std::vector<LoneProduct>> side_by_side(const std::vector<LoneProduct>& products,
                                                   std::size_t most) {
  std::vector<std::vector<LoneProduct>> groups;
  for (const LoneProduct& each : products) {
    const auto group = std::ranges::find_if(groups, [&](const std::vector<LoneProduct>& known) {
      return known.size() < most && go_together(known.front(), each);
    });
    if (group == groups.end()) {
      groups.push_back({each});
    } else {
      group->push_back(each);
    }
  }
  std::erase_if(groups, [](const std::vector<LoneProduct>& group) { return group.size() < 2; });
  return groups;
}

bool is_one_launch(const plan::Plan& plan, std::size_t num_products, std::int64_t rows,
                   const targets::TargetInfo& target, const std::string& family) {
  const codegen::KernelFamily* const kernels = codegen::family_side_by_side(target, family);
  if (kernels == nullptr || plan.steps.size() != num_products) return false;
  const auto ranges = codegen::side_by_side(plan, *kernels, target, rows);
  return ranges.size() == 1 && ranges.front().count == num_products;
}

std::vector<bool> made_of(const ir::Graph& graph, const std::vector<ValueId>& values,
                          const std::vector<std::vector<ValueId>>& kernels) {
  std::vector<bool> made(graph.nodes.size());
  for (const ValueId id : values) made[plan::index(id)] = true;
  const auto is_made = [&](ValueId id) { return made[plan::index(id)]; };
  std::vector<const std::vector<ValueId>*> others;
  for (const std::vector<ValueId>& kernel : kernels) {
    if (std::ranges::none_of(kernel, is_made)) others.push_back(&kernel);
  }
  for (bool is_more = true; std::exchange(is_more, false);) {
    for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
      made[id] = made[id] || std::ranges::any_of(graph.nodes[id].args, is_made);
    }
    for (const std::vector<ValueId>* kernel : others) {  // all of it waits for any operand
      if (std::ranges::none_of(*kernel, is_made) || std::ranges::all_of(*kernel, is_made)) continue;
      for (const ValueId id : *kernel) made[plan::index(id)] = true;
      is_more = true;
    }
  }
  return made;
}

bool waits_for_itself(const ir::Graph& graph, const std::set<ValueId>& values,
                      const std::vector<bool>& made) {
  return std::ranges::any_of(values, [&](ValueId id) {
    return std::ranges::any_of(graph[id].args, [&](ValueId arg) {
      return made[plan::index(arg)] && !values.contains(arg);
    });
  });
}

std::set<std::string_view> names_of(const ir::Graph& graph, const std::vector<bool>& made,
                                    const std::map<std::string, std::string>& whole_of) {
  std::set<std::string_view> names;
  for (std::size_t id = 0; id < made.size(); ++id) {
    if (!made[id]) continue;
    names.insert(graph.nodes[id].name);
    const auto whole = whole_of.find(graph.nodes[id].name);
    if (whole != whole_of.end()) names.insert(whole->second);
  }
  return names;
}

std::vector<FusedKernel> take_those_of(const std::set<std::string>& values,
                                       std::vector<FusedKernel>& kernels) {
  const auto first = std::ranges::stable_partition(kernels, [&](const FusedKernel& each) {
                       return std::ranges::none_of(
                           each.values, [&](const auto& name) { return values.contains(name); });
                     }).begin();
  std::vector<FusedKernel> taken(std::make_move_iterator(first),
                                 std::make_move_iterator(kernels.end()));
  kernels.erase(first, kernels.end());
  return taken;
}

void move_before_readers(const std::set<std::string_view>& made, std::size_t first,
                         std::vector<FusedKernel>& kernels) {
  const auto last = kernels.end() - 1;
  const auto readers = std::stable_partition(
      kernels.begin() + static_cast<std::ptrdiff_t>(first), last, [&](const FusedKernel& each) {
        return std::ranges::none_of(
            each.inputs, [&](const FusionTensor& input) { return made.contains(input.value); });
      });
  std::rotate(readers, last, kernels.end());
}

}  // namespace epifuse
