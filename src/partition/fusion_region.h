// Which values of a planned step pay to be in its kernel, when a framework can compute the others.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "epifuse/fusion.h"
#include "plan/plan.h"

namespace epifuse {

struct WorthComputing {
  std::vector<ir::ValueId> values;  // in graph order
  bool saves_nothing = false;       // with more values as many bytes would move
};

// A plan of one level of a framework's graph, with what the framework says of it.
class FrameworkPlan {
 public:
  // `fused`: what kernels may compute, all that the plan's products could if null.
  FrameworkPlan(const plan::Plan& plan, const FusionRequest& request,
                const std::set<ir::ValueId>* fused = nullptr);

  const plan::Plan& plan() const { return plan_; }
  // Of the values that `step` computes, those whose kernel and what is left to the framework move
  // the fewest bytes together; without parts of ops of the framework. Empty when the product itself
  // is such a part. Not `with_blocks`: nor maxima of blocks, and what depends on them.
  WorthComputing worth_computing(const plan::FusedGemm& step, bool with_blocks = true) const;
  // Whether something outside of `inside` reads the value.
  bool is_read_outside(ir::ValueId value, const std::set<ir::ValueId>& inside) const;
  // All parts of the framework's op that the value is a part of.
  std::vector<ir::ValueId> unit(ir::ValueId value) const;
  // Of an element of a kernel's results, what the value takes in memory.
  double bytes(ir::ValueId value, const ir::Shape& tile) const;
  bool is_in_memory(ir::ValueId value) const;  // whoever computes it
  bool is_unstored(ir::ValueId value) const;   // in memory only if a kernel reads it
  // Those of a kernel's values that need a product of it, and sums. Of the others no kernel stores
  // any: the framework makes them too.
  std::set<ir::ValueId> results(const std::set<ir::ValueId>& values) const;
  // Whether a value of a kernel is a sum of what needs no product of it.
  bool is_sum_beside(ir::ValueId value, const std::set<ir::ValueId>& results) const;
  // Whether nothing is computed of a kernel's product.
  bool has_only_sums_beside(const std::vector<ir::ValueId>& values) const;
  // Whether a kernel's only work is to put rows where an index says, for readers that could look
  // them up.
  bool only_puts(const std::vector<ir::ValueId>& values) const;

 private:
  using Values = std::set<ir::ValueId>;
  Values without(const Values& values, const std::vector<ir::ValueId>& dropped) const;
  Values without_parts(Values values) const;
  Values without_blocks(const Values& values) const;
  double traffic(const Values& results, const Values& inside, const ir::Shape& tile) const;
  double second_read(ir::ValueId value, const Values& inside, const ir::Shape& tile) const;
  Values fewest(const Values& values, ir::ValueId product) const;
  Values least(Values best, const Values& of_product, ir::ValueId product,
               const std::function<double(const Values&)>& moved) const;
  bool sums_rows_of(const Values& results, const Values& inside, const ir::Shape& tile) const;
  Values without_column_sums(const Values& values, ir::ValueId product) const;

  const plan::Plan& plan_;
  const FusionRequest& request_;
  std::vector<std::vector<ir::ValueId>> dependents_;  // live computed values that read a value
  std::vector<bool> is_result_, in_memory_, unstored_;
  std::vector<bool> in_product_;  // a product, or work that a product's kernel may do
  std::unordered_map<ir::ValueId, std::size_t> unit_of_;
  std::vector<std::vector<ir::ValueId>> units_;
};

}  // namespace epifuse
