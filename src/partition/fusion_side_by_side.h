// Products of one operand that are one launch.
#pragma once

#include <cstdint>
#include <set>
#include <string>
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

// Two to `most` products in each group, of one A and with work of one kind.
std::vector<std::vector<LoneProduct>> side_by_side(const std::vector<LoneProduct>& products,
                                                   std::size_t most);

// Whether a kernel's plan is so many steps in one launch of so many rows.
bool is_one_launch(const plan::Plan& plan, std::size_t num_products, std::int64_t rows,
                   const targets::TargetInfo& target, const std::string& family);

// Takes out the kernels that compute any of these values.
std::vector<FusedKernel> take_those_of(const std::set<std::string>& values,
                                       std::vector<FusedKernel>& kernels);

// Puts the last kernel, which others from the `first` on may read, behind those that make its
// inputs.
void move_behind_its_inputs(std::vector<FusedKernel>& kernels, std::size_t first);

}  // namespace epifuse
