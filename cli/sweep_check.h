// Whether candidates of a sweep compute what they should.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "point_tensors.h"

namespace epifuse::cli {

// What two right results may differ by: a part of the element, and one of the root mean square of
// all, and in fp8 an ulp. In 16 bits sums in another order are far closer. Fast sums of fp8 lose
// more, 2^-9 of the root mean square on average, and what they lose depends on the order.
struct Slack {
  double relative, of_mean;
};
Slack slack_of(const ir::Graph& graph);
bool are_near(const TensorView& view, const std::vector<unsigned char>& known, const Slack& slack);

// Compares results at one point: rows of the first one with the float64 reference, all elements of
// the others with it, as two right results differ by roundings only.
class SweepCheck {
 public:
  SweepCheck(const plan::Plan& plan, PointTensors& tensors) : plan_(plan), tensors_(tensors) {}

  // Runs, and says what is wrong with the result; empty when nothing is.
  std::string run(const std::function<void()>& candidate);
  // Relative error of the rows compared with the reference.
  double rel_error() const { return rel_error_; }

 private:
  bool agrees_with_known() const;
  std::string compare_with_reference();
  const plan::Plan& plan_;
  PointTensors& tensors_;
  std::vector<std::vector<unsigned char>> known_;  // the outputs of a run that was right
  double rel_error_ = 0;
};

}  // namespace epifuse::cli
