#include "planned_point.h"

#include <utility>

#include "backends/pointer_arrays.h"
#include "split_run.h"
#include "tune/shortlist.h"

namespace epifuse::cli {
namespace {

// What tensors of the point ask of a kernel; the reason when no kernel can address them.
std::optional<plan::WhyNot> add_variant(PlannedPoint& point) {
  const codegen::Bound bound =
      backends::bind_stand_ins(point.plan, {{"M", point.point.m}}, DeviceKind::cuda);
  if (auto no = point.family->why_not_bound(point.plan, point.step(), bound)) return no;
  point.variant = point.family->variant(point.plan, point.step(), bound);
  const plan::GemmDesc& gemm = point.step().gemm;
  point.sizes = tune::gemm_sizes(gemm, bound);
  if (point.family->roles(point.variant).are_exchanged) {
    point.sizes = codegen::exchanged(point.sizes);
  }
  return std::nullopt;
}

}  // namespace

std::variant<PlannedPoint, plan::WhyNot> plan_point(const Point& point,
                                                    const targets::TargetInfo& target,
                                                    std::string_view named) {
  const Graph graph = graph_of(point);
  auto plan = plan_of_product(graph);
  if (!plan) return plan::WhyNot{"no_product", "it is no single fused product."};
  PlannedPoint out{point, graph, *std::move(plan)};
  plan::WhyNot why{"no_family", "there are no families."};
  for (const codegen::KernelFamily* family : codegen::families_for(target, named)) {
    auto no = family->why_not(out.plan, out.step(), target);
    if (no) {
      why = *std::move(no);
      continue;
    }
    out.family = family;
    if (auto unaddressed = add_variant(out)) return *std::move(unaddressed);
    return out;
  }
  return why;
}

std::vector<codegen::GemmConfig> configs_of(const PlannedPoint& point,
                                            const targets::TargetInfo& target) {
  return codegen::fitted(*point.family, point.step(), point.family->configs(point.step(), target),
                         point.variant, target);
}

}  // namespace epifuse::cli
