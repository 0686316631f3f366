// What each kind of golden test does with its input.
#include "kinds.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cli/report.h"
#include "codegen/family.h"
#include "codegen/pointer_arrays.h"
#include "codegen/side_by_side.h"
#include "codegen/tail.h"
#include "epifuse/error.h"
#include "explain/explain.h"
#include "ir/graph.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "plan/plan.h"
#include "tests/common/split_plan.h"

namespace epifuse::text_tests {
namespace {

ir::Graph parse_verified(const Case& test) {
  ir::Graph graph = ir::parse(test.input);
  ir::verify(graph);
  return graph;
}

// What is printed must read back as the same graph and print as the same text.
std::string print_checked(const ir::Graph& graph) {
  const std::string text = ir::print(graph);
  const ir::Graph again = ir::parse(text);
  if (again != graph) throw std::logic_error("parse(print(graph)) is another graph:\n" + text);
  if (ir::print(again) != text) throw std::logic_error("it prints differently again:\n" + text);
  return text;
}

std::string run_roundtrip(const Case& test) { return print_checked(parse_verified(test)); }

std::string run_errors(const Case& test) {
  try {
    return "no error; it reads as\n" + ir::print(ir::parse(test.input));
  } catch (const ParseError& error) {
    return std::string(error.what()) + "\n";
  }
}

// passes/<pass>/ through that pass alone, passes/all/ and passes/all_exact/ through the pipeline.
std::string run_passes(const Case& test) {
  const ir::Graph graph = parse_verified(test);
  if (test.subfolder == "all") return print_checked(passes::run_all(graph, Numerics::fast));
  if (test.subfolder == "all_exact") return print_checked(passes::run_all(graph, Numerics::exact));
  for (const passes::Pass& pass : passes::all()) {
    if (pass.name != test.subfolder) continue;
    const ir::Graph result = pass.run(graph);
    ir::verify(result);
    return print_checked(result);
  }
  throw std::logic_error("there is no pass called " + test.subfolder);
}

// plan/ as it is, plan/exact/, plan/tf32/ and plan/unfused/ with that option, plan/split/ with
// every product apart, plan/after_passes/ behind the pipeline.
std::string run_plan(const Case& test) {
  ir::Graph graph = parse_verified(test);
  CompileOptions options;
  if (test.subfolder == "exact") options.numerics = Numerics::exact;
  if (test.subfolder == "unfused") options.fuse = false;
  if (test.subfolder == "tf32") options.allow_tf32 = true;
  if (test.subfolder == "after_passes") graph = passes::run_all(graph, options.numerics);
  plan::Plan plan = plan::make_plan(graph, options);
  plan::verify(plan);
  if (test.subfolder == "split") plan = epifuse::test::split_products(plan);
  plan::verify(plan);
  return plan::print(plan);
}

// explain/ for sm_90a, explain/split/ as run without a kernel for any product, explain/cpu/ and
// explain/json/. Without sizes, and without a report on how the target runs the steps.
std::string run_explain(const Case& test) {
  const plan::Plan fused = plan::make_plan(parse_verified(test), {});
  const plan::Plan plan = test.subfolder == "split" ? epifuse::test::split_products(fused) : fused;
  Target target{DeviceKind::cuda, "sm_90a"};
  if (test.subfolder == "cpu") target = {DeviceKind::cpu, "cpu"};
  if (test.subfolder == "json") return explain_json(plan, {}, target, {}, "");
  return explain_text(plan, {}, target, {}, "");
}

// The kernels beside the product's where a plan runs on many problems: what describes them to each
// family, and what the first does by hand.
std::string pointer_arrays_text(const plan::Plan& plan) {
  if (const auto no = codegen::why_not_pointer_arrays(plan)) {
    return fmt::format("{}: {}\n", no->code, no->sentence);
  }
  const targets::TargetInfo& target = targets::usual_target(DeviceKind::cuda);
  const auto& step = std::get<plan::FusedGemm>(plan.steps.front());
  std::string text;
  for (const codegen::KernelFamily& family : codegen::all_families()) {
    const auto configs = family.pointer_arrays->configs(family.configs(step, target));
    text += family.pointer_arrays->describe_source(plan, configs.front(), {}, target).text;
  }
  return text + codegen::all_families().front().pointer_arrays->by_hand_source(plan, target).text;
}

// The kernels for the first steps that go side by side, of each kind the first config's.
std::string side_by_side_text(const plan::Plan& plan) {
  const targets::TargetInfo& target = *targets::find_target("sm_90a");
  const codegen::KernelFamily& family = *codegen::family_side_by_side(target, "");
  const codegen::StepRange range = codegen::side_by_side(plan, family, target).at(0);
  const auto& step = std::get<plan::FusedGemm>(plan.steps[range.first]);
  std::string text = fmt::format("// {} steps from step {} on\n", range.count, range.first);
  for (const codegen::SideBySideKind& kind : family.side_by_side->kinds) {
    const auto configs = kind.configs(step, target);
    const bool is_for_any = &kind == &family.side_by_side->kinds.back();
    const std::string rows = is_for_any ? "any" : fmt::format("up to {}", kind.most_rows);
    text += fmt::format("// {} rows, {} configs\n", rows, configs.size());
    if (!configs.empty()) text += kind.source(plan, step, configs.front(), target).text;
  }
  return text;
}

// The sources of the tail kernels for sm_90a, emit/split/ with every product apart, emit/problems/
// of many problems, emit/side_by_side/ of products in one launch.
std::string run_emit(const Case& test) {
  if (test.subfolder == "side_by_side") {
    return side_by_side_text(plan::make_plan(parse_verified(test), {}));
  }
  if (test.subfolder == "pointer_arrays") {
    return pointer_arrays_text(
        plan::make_plan(passes::run_all(parse_verified(test), Numerics::fast), {}));
  }
  const plan::Plan fused = plan::make_plan(parse_verified(test), {});
  const plan::Plan plan = test.subfolder == "split" ? epifuse::test::split_products(fused) : fused;
  std::string text;
  for (const plan::Step& step : plan.steps) {
    const auto* tail = std::get_if<plan::Tail>(&step);
    if (tail) text += codegen::tail_source(plan, *tail, *targets::find_target("sm_90a")).text;
  }
  return text;
}

// report/markdown/ and report/svg/: the performance page and its plot, of result rows as JSON.
std::string run_report(const Case& test) {
  const auto rows = nlohmann::json::parse(test.input);
  if (test.subfolder == "markdown") {
    return cli::report_markdown(rows, "../bench/results/h200.json", "performance.svg");
  }
  return cli::report_plot(cli::report_tables(rows).front(), "Speed-up");
}

constexpr auto kKinds = std::to_array<Kind>({
    {"roundtrip", run_roundtrip},
    {"errors", run_errors},
    {"passes", run_passes},
    {"plan", run_plan},
    {"explain", run_explain},
    {"emit", run_emit},
    {"report", run_report},
});

}  // namespace

std::span<const Kind> all_kinds() { return kKinds; }

}  // namespace epifuse::text_tests
