// Which work on an epilogue's operands pays to be done in its kernel.
#pragma once

#include <set>

#include "partition/fusion_region.h"

namespace epifuse {

// Of the values that a planned step computes, those that do not need its product: a framework can
// make them too.
class Producers {
 public:
  using Values = std::set<ir::ValueId>;
  Producers(const FrameworkPlan& framework, const plan::FusedGemm& step);

  bool contains(ir::ValueId value) const { return producers_.contains(value); }
  // What the step computes without the producers that the framework makes with less: one is the
  // kernel's if that takes fewer bytes, and instructions counted as bytes, than to store its result
  // for the kernel.
  Values cheapest() const;
  // `values` without the producers that none of the others reads.
  Values pruned(const Values& values) const;
  // `values` without the sums of tensors that none of the others reads.
  Values without_lone_sums(const Values& values) const;
  // Whether a kernel of `values` reads any full tensor beside its product's operands.
  bool reads_any(const Values& values) const;
  // Bytes an element of the full tensors that such a kernel reads.
  double bytes_read(const Values& values) const;
  // Bytes an element that go through memory only because a kernel of `values` reads them.
  double bytes_made(const Values& values) const;

 private:
  bool can_drop(ir::ValueId id) const;
  Values without_cut_ops() const;
  Values without(const Values& values, ir::ValueId id) const;
  Values loads(const Values& values) const;
  bool is_made(ir::ValueId load) const;
  double cost(const Values& values) const;
  void add_read_by_framework(ir::ValueId load, Values& found) const;

  const FrameworkPlan& framework_;
  const ir::Graph& graph_;
  const ir::Shape tile_;
  Values all_, producers_;
};

}  // namespace epifuse
