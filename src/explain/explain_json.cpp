// Writes an explanation for programs.
#include <nlohmann/json.hpp>

#include "explain/explain.h"
#include "explain/explanation.h"

namespace epifuse {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Transfer& transfer) {
  Json shape = Json::array();
  for (const Dim& dim : transfer.shape) shape.push_back(dim.str());
  return {{"name", transfer.name},
          {"dtype", name(transfer.dtype)},
          {"shape", shape},
          {"access", transfer.access},
          {"bytes", transfer.bytes}};
}

Json to_json(const plan::WhyNot& why) { return {{"code", why.code}, {"sentence", why.sentence}}; }

template <class T>
Json list(const std::vector<T>& items) {
  Json result = Json::array();
  for (const T& item : items) result.push_back(to_json(item));
  return result;
}

Json to_json(const StepExplanation& step) {
  return {{"kind", step.is_product ? "fused_gemm" : "tail"},
          {"what", step.what},
          {"epilogue", step.label},
          {"computes", step.values},
          {"reads", list(step.detail.reads)},
          {"writes", list(step.detail.writes)},
          {"how", step.report.how},
          {"why_not", list(step.report.why_not)},
          {"flops", step.detail.flops},
          {"bytes", step.cost.bytes},
          {"unfused_bytes", step.unfused.bytes},
          {"us", step.cost.seconds * 1e6},
          {"unfused_us", step.unfused.seconds * 1e6}};
}

Json left_out(const plan::Plan& plan) {
  Json result = Json::array();
  for (const plan::LeftOut& entry : plan.left_out) {
    Json row = {{"value", plan.graph[entry.value].name}};
    row.update(to_json(entry.why));
    result.push_back(std::move(row));
  }
  return result;
}

}  // namespace

std::string explain_json(const plan::Plan& plan, const std::vector<backends::StepReport>& reports,
                         const Target& target, const Sizes& sizes, std::string_view machine) {
  const Explanation explanation = make_explanation(plan, reports, target, sizes, machine);
  Json steps = Json::array();
  for (const StepExplanation& step : explanation.steps) steps.push_back(to_json(step));
  Json json = {{"graph", plan.graph.name},
               {"target", target.arch},
               {"numerics", name(plan.numerics)},
               {"machine", explanation.machine.name},
               {"sizes", explanation.sizes},
               {"assumed_sizes", explanation.assumed},
               {"steps", steps},
               {"left_out", left_out(plan)},
               {"split_off", explanation.split_off},
               {"bytes", explanation.cost.bytes},
               {"unfused_bytes", explanation.unfused.bytes},
               {"us", explanation.cost.seconds * 1e6},
               {"unfused_us", explanation.unfused.seconds * 1e6}};
  if (plan.allow_tf32) json["allow_tf32"] = true;
  return json.dump(2) + "\n";
}

}  // namespace epifuse
