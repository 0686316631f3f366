// The steps of a plan under construction, in an order in which each comes after all it reads.
#pragma once

#include <vector>

#include "plan/facts.h"

namespace epifuse::plan {

// A step is named by one of its values. At first every live computed value is a step of its own.
class StepOrder {
 public:
  explicit StepOrder(const Facts& facts);

  ir::ValueId step_of(ir::ValueId value) const { return step_of_[index(value)]; }
  const std::vector<ir::ValueId>& values(ir::ValueId step) const { return values_[index(step)]; }
  std::size_t position(ir::ValueId step) const { return position_[index(step)]; }
  // Steps by position; -1 where none is.
  const std::vector<ir::ValueId>& by_position() const { return order_; }

  // Merges single-value steps `joined`, in order of position, into the earlier `seed`. The merged
  // step takes the place of the last of them; `later`, the steps up to there that read what it
  // writes, come right after it. None of `joined` may read from `later`.
  void merge(ir::ValueId seed, const std::vector<ir::ValueId>& joined,
             const std::vector<ir::ValueId>& later);
  // Takes one value out of its step (it will be computed where it is used).
  void remove(ir::ValueId value);

 private:
  void place(ir::ValueId step, std::size_t position);
  std::vector<ir::ValueId> step_of_, order_;
  std::vector<std::vector<ir::ValueId>> values_;
  std::vector<std::size_t> position_;
};

}  // namespace epifuse::plan
