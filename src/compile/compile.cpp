// The whole road: graph -> passes -> plan -> a backend's executable -> program.
#include <fmt/format.h>

#include "backends/backend.h"
#include "backends/target.h"
#include "compile/program_state.h"
#include "epifuse/error.h"
#include "passes/pipeline.h"
#include "plan/plan.h"

namespace epifuse {
namespace {

const backends::Backend& backend_of(DeviceKind kind) {
  for (const backends::Backend& backend : backends::all_backends()) {
    if (backend.kind == kind) return backend;
  }
  throw InternalError("no backend for this kind of device");
}

}  // namespace

Program compile(const Graph& graph, const Target& target, const CompileOptions& options) {
  const targets::TargetInfo& info = target_info(target);
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
  const ir::Graph simplified = passes::run_all(graph.ir(), options.numerics);
  const CompileOptions planned = options_on(info, options);
  const plan::Plan plan = plan::make_plan(simplified, planned);
  plan::verify(plan);
  auto state = std::make_shared<Program::State>();
  state->target = target;
  state->options = options;
  state->source_graph = graph.ir();
  state->executable = backend_of(info.kind).prepare(plan, info, planned);
  return Program(std::move(state));
}

}  // namespace epifuse
