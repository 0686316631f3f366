// Which dims of its operand the dims of a view are made of: the one place that knows it of every
// view op. Whoever follows a value through views, whatever it follows, goes by these.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/graph.h"

namespace epifuse::ir {

// Neighbouring dims of the operand that hold the same elements as neighbouring dims of the view,
// outermost first. Neither list is empty.
struct ViewDims {
  std::vector<std::size_t> from, to;
  const SliceRange* range = nullptr;  // that the view takes of its one dim; null for all of it
  bool is_looked_up = false;          // integers say which row of the operand each row is

  bool is_step_one() const { return !is_looked_up && (range == nullptr || range->step == 1); }
};

// The finest that hold for all sizes, of a view of shape `to` of an operand of shape `from`. A dim
// of the view in none of them stays on one element: its size is 1, or it repeats a dim of size 1.
// Of a reshape without elements no dim is in any.
std::vector<ViewDims> view_dims(const Node& view, const Shape& from, const Shape& to);

}  // namespace epifuse::ir
