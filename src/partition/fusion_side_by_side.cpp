// Products of one operand that are one launch.
#include "partition/fusion_side_by_side.h"

#include <algorithm>
#include <iterator>

#include "codegen/side_by_side.h"

namespace epifuse {
namespace {

bool go_together(const LoneProduct& x, const LoneProduct& y) {
  return codegen::multiply_alike(x.step->gemm, y.step->gemm) && x.epilogue == y.epilogue;
}

}  // namespace

std::size_t most_side_by_side(const targets::TargetInfo& target, const std::string& family) {
  const codegen::KernelFamily* const found = codegen::family_side_by_side(target, family);
  return found == nullptr ? 0 : found->side_by_side->most;
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

void move_behind_its_inputs(std::vector<FusedKernel>& kernels, std::size_t first) {
  const FusedKernel& last = kernels.back();
  const auto is_input = [&](const FusionTensor& made) {
    return std::ranges::any_of(
        last.inputs, [&](const FusionTensor& input) { return input.value == made.value; });
  };
  auto place = kernels.end() - 1;
  const auto begin = kernels.begin() + static_cast<std::ptrdiff_t>(first);
  while (place != begin && std::ranges::none_of((place - 1)->outputs, is_input)) --place;
  std::rotate(place, kernels.end() - 1, kernels.end());
}

}  // namespace epifuse
