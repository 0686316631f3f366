// Products whose heads are read by halves, such as queries and keys with rotary positions.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "epifuse/fusion.h"
#include "partition/fusion_levels.h"
#include "targets/targets.h"

namespace epifuse {

using NamesOfProducts = std::set<std::string, std::less<>>;

// Products whose A another one multiplies, too.
NamesOfProducts products_of_one_operand(const ir::Graph& graph);

// Which of them become kernels of heads, but for those `left`: where the result is needed in
// memory, and there are so many rows that it pays. Of those of `one_launch` with all products of
// the same rows they must be more.
passes::TakesHeads takes_heads(const targets::TargetInfo& target, const FusionRequest& request,
                               const NamesOfProducts& left, const NamesOfProducts& one_launch);

// The products of whose work no kernel does all.
NamesOfProducts heads_left(const std::vector<FusionLevel>& levels,
                           const std::vector<FusedKernel>& kernels);

// Says of kernels what they compute of work on heads without a value of its own, and how it lies.
void describe_heads(const std::vector<FusionLevel>& levels, std::vector<FusedKernel>& kernels);

}  // namespace epifuse
