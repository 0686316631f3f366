// Products of one operand that are one launch.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "epifuse/fusion.h"
#include "plan/plan.h"
#include "targets/targets.h"

namespace epifuse {

// How many products a target's kernels take side by side; 0: none.
std::size_t most_side_by_side(const targets::TargetInfo& target, const std::string& family);

// A product that would be alone in a launch: `values` are what its kernel computes.
struct LoneProduct {
  const plan::FusedGemm* step = nullptr;
  std::int64_t rows = 0;  // that it likely has
  std::vector<ir::ValueId> values;
  std::string epilogue, name;  // of its kernel
};

std::set<ir::ValueId> values_of(const std::vector<LoneProduct>& products);

// Two to `most` products in each group, of one A and with work of one kind.
std::vector<std::vector<LoneProduct>> side_by_side(const std::vector<LoneProduct>& products,
                                                   std::size_t most);

// Whether a kernel's plan is so many steps in one launch of so many rows.
bool is_one_launch(const plan::Plan& plan, std::size_t num_products, std::int64_t rows,
                   const targets::TargetInfo& target, const std::string& family);

// Of all values, whether they are these or made of them. `kernels`: values that others compute
// together, so that all wait for any operand; those with any of `values` are not looked at.
std::vector<bool> made_of(const ir::Graph& graph, const std::vector<ir::ValueId>& values,
                          const std::vector<std::vector<ir::ValueId>>& kernels);
// Whether one kernel for these values would read what is `made` of them elsewhere.
bool waits_for_itself(const ir::Graph& graph, const std::set<ir::ValueId>& values,
                      const std::vector<bool>& made);

// The framework's names of those: parts of its values have the names of the whole, too.
std::set<std::string_view> names_of(const ir::Graph& graph, const std::vector<bool>& made,
                                    const std::map<std::string, std::string>& whole_of);

// Takes out the kernels that compute any of these values.
std::vector<FusedKernel> take_those_of(const std::set<std::string>& values,
                                       std::vector<FusedKernel>& kernels);

// Puts the last kernel before those from the `first` on that read what is `made` of its results.
void move_before_readers(const std::set<std::string_view>& made, std::size_t first,
                         std::vector<FusedKernel>& kernels);

}  // namespace epifuse
