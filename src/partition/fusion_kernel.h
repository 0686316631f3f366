// A kernel's own graph, cut out of a framework's.
#pragma once

#include <map>
#include <vector>

#include "epifuse/fusion.h"
#include "partition/fusion_region.h"

namespace epifuse {

using FrameworkValues = std::map<std::string, ir::Shape, std::less<>>;

struct CutKernel {
  ir::Graph graph;  // outputs y0.., sizes d0.., values as in the framework's
  std::vector<FusionTensor> inputs, outputs;  // in order of the graph's
};

// The graph that computes `values` (of framework.plan().graph, in order) and stores those that
// something else reads. `framework_values` are the framework's, which the plan's graph may have in
// other shapes. The "no" is a symbolic size that no input tells.
struct CutResult {
  CutKernel kernel;
  std::optional<plan::WhyNot> why_not;
};
CutResult cut_kernel(const FrameworkPlan& framework, const std::vector<ir::ValueId>& values,
                     const FrameworkValues& framework_values);

// The kernel's graph as programs for the framework's tensors will declare it, with the strides that
// the cut one has. Inputs come first in both.
ir::Graph with_strides_of(const ir::Graph& cut, const ir::Graph& kernel);
// The plan of a graph without names, under the framework's: nodes of `nameless` are those of `cut`.
plan::Plan with_framework_names(plan::Plan plan, const ir::Graph& nameless, const ir::Graph& cut);

// The graph with inputs called x0.., values t0.., views v0.., constants c0.., for any strides.
ir::Graph without_names(ir::Graph graph);

}  // namespace epifuse
