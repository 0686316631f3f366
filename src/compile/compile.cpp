// The whole road: graph -> passes -> plan -> a backend's executable -> program.
#include "compile/compile.h"

#include <fmt/format.h>

#include "backends/backend.h"
#include "backends/target.h"
#include "base/tune_mode.h"
#include "compile/program_state.h"
#include "epifuse/error.h"

namespace epifuse {
namespace {

const backends::Backend& backend_of(DeviceKind kind) {
  for (const backends::Backend& backend : backends::all_backends()) {
    if (backend.kind == kind) return backend;
  }
  throw InternalError("no backend for this kind of device");
}

void check(const Graph& graph) {
  ir::verify(graph.ir());
  if (graph.ir().outputs.empty()) {
    throw GraphError(
        fmt::format("graph {}: expected at least one output, got none; "
                    "name one with Graph::output or `return`",
                    graph.ir().name));
  }
  for (const ir::Output& output : graph.ir().outputs) {
    if (!is_integer(graph.ir()[output.value].type.dtype)) continue;
    throw GraphError(
        fmt::format("output '{}' expects a float or bool value, got integers, which "
                    "only number rows",
                    output.name));
  }
}

}  // namespace

std::shared_ptr<const plan::Plan> checked_plan(const Graph& graph, const Target& target,
                                               const CompileOptions& options, plan::Plans& plans) {
  const targets::TargetInfo& info = target_info(target);
  check(graph);
  return plans.of(graph.ir(), options_on(info, options), info.limits);
}

Program compile(const Graph& graph, const Target& target, const CompileOptions& options,
                plan::Plans& plans) {
  const targets::TargetInfo& info = target_info(target);
  const std::shared_ptr<const plan::Plan> plan = checked_plan(graph, target, options, plans);
  CompileOptions planned = options_on(info, options);
  planned.tune = tune_mode(options.tune);
  auto state = std::make_shared<Program::State>();
  state->target = target;
  state->options = options;
  state->source_graph = graph.ir();
  state->executable = backend_of(info.kind).prepare(*plan, info, planned);
  return Program(std::move(state));
}

Program compile(const Graph& graph, const Target& target, const CompileOptions& options) {
  plan::Plans plans;
  return compile(graph, target, options, plans);
}

}  // namespace epifuse
