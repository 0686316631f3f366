// Follows a plan's roundings, and compares a program's results with the reference.
#include "check/verify_program.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "backends/reference/interval.h"
#include "backends/target.h"
#include "base/text.h"
#include "compile/program_state.h"
#include "ir/views.h"
#include "passes/pipeline.h"
#include "plan/facts.h"

namespace epifuse {
namespace {

using ir::ValueId;

// How the values of a plan are read.
struct Reads {
  explicit Reads(std::size_t num_values) : from_memory(num_values), from_register(num_values) {}
  std::vector<bool> from_memory, from_register;
};

Reads find_reads(const plan::Plan& plan) {
  const ir::Graph& graph = plan.graph;
  Reads reads(graph.nodes.size());
  const auto read_memory = [&](ValueId id) {
    reads.from_memory[static_cast<std::size_t>(ir::storage(graph, id))] = true;
  };
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    if (const auto* step = std::get_if<plan::FusedGemm>(&plan.steps[i])) {
      for (const ValueId operand : step->gemm.reads()) read_memory(operand);
    }
    std::set<ValueId> loaded;
    for (const plan::Load& load : plan.epilogue(i).loads) {
      read_memory(load.value);
      loaded.insert(load.value);
    }
    for (ValueId value : plan::computed_values(plan, plan.steps[i])) {
      if (ir::is_matmul(graph[value].op)) continue;
      for (ValueId arg : graph[value].args) {
        const ValueId operand = plan::loaded_value(graph, arg);
        if (!loaded.contains(operand)) {
          reads.from_register[static_cast<std::size_t>(ir::storage(graph, operand))] = true;
        }
      }
    }
  }
  return reads;
}

std::set<std::string> value_names(const ir::Graph& graph) {
  std::set<std::string> names;
  for (const ir::Node& node : graph.nodes) names.insert(node.name);
  return names;
}

// A copy that planning added is another place of its operand: its readers read the operand.
void follow_copies(const plan::Plan& plan, const std::set<std::string>& known, Reads& reads) {
  for (std::size_t id = plan.graph.nodes.size(); id-- > 0;) {
    const ir::Node& node = plan.graph.nodes[id];
    if (node.op != ir::Op::cast || known.contains(node.name)) continue;
    const auto origin = static_cast<std::size_t>(ir::storage(plan.graph, node.args[0]));
    reads.from_memory[origin] = reads.from_memory[origin] || reads.from_memory[id];
  }
}

}  // namespace

reference::Options reference_options(const ir::Graph& graph, const plan::Plan& plan,
                                     const targets::TargetInfo& target) {
  reference::Options options;
  options.numerics = plan.numerics;
  options.tf32 = plan.allow_tf32;
  options.short_step = target.fp8_step;
  Reads reads = find_reads(plan);
  follow_copies(plan, value_names(graph), reads);
  for (std::size_t id = 0; id < plan.graph.nodes.size(); ++id) {
    if (!reads.from_memory[id]) continue;
    std::vector<std::string>& names =
        reads.from_register[id] ? options.maybe_rounded : options.rounded;
    names.push_back(plan.graph.nodes[id].name);
  }
  return options;
}

std::vector<reference::Verdict> verify_program(const Program& program,
                                               std::span<const Binding> tensors,
                                               std::span<const Binding> placed,
                                               std::int64_t max_elements, std::uint64_t seed) {
  const Program::State& state = program.state();
  const ir::Graph graph = passes::run_all(state.source_graph, state.options.numerics);
  const backends::Executable& executable = *state.executable;
  const codegen::Bound bound = backends::bind(executable.plan(), placed, state.target.kind);
  const backends::RunPlan run = executable.plan_for(bound);
  reference::Options options = reference_options(graph, run.plan, target_info(state.target));
  options.i8_in_float32 = run.has_other_products;
  options.max_elements = max_elements;
  options.seed = seed;
  return reference::verify(graph, tensors, options);
}

std::vector<reference::Verdict> verify_problem(const Program& program,
                                               std::span<const Binding> tensors,
                                               std::span<const Binding> placed) {
  const Program::State& state = program.state();
  const backends::Executable& executable = *state.executable;
  if (executable.pointer_array_sources().empty()) return verify_program(program, tensors, placed);
  const ir::Graph graph = passes::run_all(state.source_graph, state.options.numerics);
  reference::Options options =
      reference_options(graph, executable.plan(), target_info(state.target));
  options.i8_in_float32 = true;  // problems that no kernel can address
  return reference::verify(graph, tensors, options);
}

std::optional<std::string> passes_error(const Program& program, std::span<const Binding> tensors) {
  const Program::State& state = program.state();
  const ir::Graph& source = state.source_graph;
  reference::Options options;
  options.numerics = state.options.numerics;
  const auto allowed = reference::bounds(source, tensors, options);
  const auto values =
      reference::bounds(passes::run_all(source, options.numerics), tensors, options);
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    for (std::size_t at = 0; at < allowed[i].size(); ++at) {
      const reference::Interval& bound = allowed[i][at];
      if (reference::accepts(bound, values[i][at].value)) continue;
      return fmt::format("{}: element {} is {} after the passes, {} within [{}, {}] before",
                         source.outputs[i].name, at, number_text(values[i][at].value),
                         number_text(bound.value), number_text(bound.low), number_text(bound.high));
    }
  }
  return std::nullopt;
}

}  // namespace epifuse
