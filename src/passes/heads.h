// Work that reads a product by halves of heads and joins them again, as rotary positions do.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "ir/views.h"

namespace epifuse::passes {

// What a value has of heads: all their elements, one half, or pairs of an element of either, with a
// dim of 2 behind; of such a pair one, with a dim of 1 behind.
enum class PartOfHeads : std::uint8_t { none, whole, half, pairs, one_of_pair };

// One value of such work. `which`: of a slice, whether it is the second half, or of each pair.
struct HeadsMember {
  ir::ValueId value;
  PartOfHeads part;
  int which = 0;
};

//   h = matmul x, w [S, H D]; r = reshape h [S, H, D]; t = transpose r [1, 0, 2]
//   a = slice t [:, :, :D / 2]; b = slice t [:, :, D / 2:]; .. join of halves ..; y = f(..)
struct WorkOnHeads {
  ir::ValueId product = -1;
  std::vector<ir::ValueId> before;  // elementwise work on all columns, which adds rows to them
  ir::ValueId split = -1;           // the reshape into heads; -1: the product has them already
  ir::ValueId heads = -1;           // what halves are taken of
  bool heads_first = true;          // [.., H, S, D]; else, not transposed, [.., S, H, D]
  ir::Halves how = ir::Halves::none;
  std::vector<HeadsMember> members;  // what reads heads, in order; the last one is the result
};

// Of each product that nothing else reads, where the one result has all elements of heads again,
// maybe in pairs. `graph` has no dead code.
std::vector<WorkOnHeads> find_work_on_heads(const ir::Graph& graph);

}  // namespace epifuse::passes
