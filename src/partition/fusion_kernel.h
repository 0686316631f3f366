// A kernel's own graph, cut out of a host's.
#pragma once

#include <map>
#include <vector>

#include "epifuse/fusion.h"
#include "partition/fusion_region.h"

namespace epifuse {

using HostValues = std::map<std::string, ir::Shape, std::less<>>;

struct CutKernel {
  ir::Graph graph;                            // outputs y0.., sizes d0.., values as in the host's
  std::vector<FusionTensor> inputs, outputs;  // in order of the graph's
};

// The graph that computes `values` (of host.plan().graph, in order) and stores those that something
// else reads. `host_values` are the host's, which the plan's graph may have in other shapes. The
// "no" is a symbolic size that no input tells.
struct CutResult {
  CutKernel kernel;
  std::optional<plan::WhyNot> why_not;
};
CutResult cut_kernel(const HostPlan& host, const std::vector<ir::ValueId>& values,
                     const HostValues& host_values);

// The graph with inputs called x0.., values t0.., views v0.., constants c0.., for any strides.
ir::Graph without_names(ir::Graph graph);

}  // namespace epifuse
