#include "tests/common/corpus_pointer_arrays.h"

#include <fmt/core.h>

#include <list>

#include "backends/backend.h"
#include "check/verify_program.h"
#include "compile/program_state.h"

namespace epifuse::testing {
namespace {

// One problem: its tensors on the host and where the program has them.
struct Placed {
  CorpusTensors tensors;
  std::vector<Binding> host, device;
  Sizes sizes;  // of all symbols
};

Placed place(const Program& program, CorpusTensors tensors, Memory& memory) {
  Placed out{std::move(tensors), {}, {}, {}};
  out.host = out.device = out.tensors.scalars;
  for (std::size_t i = 0; i < out.tensors.names.size(); ++i) {
    const std::string& name = out.tensors.names[i];
    out.host.push_back(out.tensors.tensors[i].bind(name));
    out.device.emplace_back(name, memory.place(out.tensors.tensors[i]));
  }
  const backends::Executable& executable = *program.state().executable;
  out.sizes = backends::bind(executable.plan(), out.host, DeviceKind::cpu).sizes;
  return out;
}

// Whether the strides are those of a tensor whose rows are evenly spaced.
bool has_even_rows(const HostTensor& tensor) {
  const std::vector<std::int64_t>&shape = tensor.shape(), &strides = tensor.strides();
  if (shape.empty()) return true;
  if (strides.back() != 1) return false;
  for (std::size_t d = 0; d + 2 < shape.size(); ++d) {
    if (strides[d] != shape[d + 1] * strides[d + 1]) return false;
  }
  return true;
}

bool is_declared(const ir::Graph& graph, const std::string& name) {
  for (const ir::Node& node : graph.nodes) {
    if (node.op == ir::Op::input && node.name == name) return !node.type.strides.empty();
  }
  return false;
}

// The arrays of all problems, in the caller's memory and in that of the device.
struct Arrays {
  PointerArrays problems;
  std::list<std::vector<std::int64_t>> numbers;
  std::list<std::vector<const void*>> addresses;

  const std::int64_t* place(std::vector<std::int64_t> values, Memory& memory) {
    const std::vector<std::int64_t>& kept = numbers.emplace_back(std::move(values));
    return static_cast<const std::int64_t*>(
        memory.place_bytes(kept.data(), kept.size() * sizeof kept[0]));
  }
  const void* const* place(std::vector<const void*> values, Memory& memory) {
    const std::vector<const void*>& kept = addresses.emplace_back(std::move(values));
    return static_cast<const void* const*>(
        memory.place_bytes(kept.data(), kept.size() * sizeof kept[0]));
  }
};

Arrays arrays_of(const ir::Graph& graph, const std::list<Placed>& all, Memory& memory) {
  Arrays out;
  const Placed& first = all.front();
  out.problems.count = static_cast<std::int64_t>(all.size());
  std::vector<std::int64_t> sizes;
  for (const auto& [symbol, size] : first.sizes) out.problems.symbols.push_back(symbol);
  for (const Placed& each : all) {
    for (const std::string& symbol : out.problems.symbols) sizes.push_back(each.sizes.at(symbol));
  }
  out.problems.sizes = out.place(std::move(sizes), memory);
  out.problems.host_sizes = out.numbers.back().data();
  for (const Binding& scalar : first.tensors.scalars) {
    out.problems.scalars.emplace_back(scalar.name, scalar.scalar);
  }
  const std::size_t num_scalars = first.tensors.scalars.size();
  for (std::size_t i = 0; i < first.tensors.names.size(); ++i) {
    const std::string& name = first.tensors.names[i];
    const std::size_t rank = first.tensors.tensors[i].shape().size();
    std::vector<const void*> data;
    std::vector<std::int64_t> strides;
    for (const Placed& each : all) {
      data.push_back(each.device[num_scalars + i].view.data);
      if (rank >= 2) strides.push_back(each.tensors.tensors[i].strides()[rank - 2]);
    }
    const bool has_rows = rank >= 2 && !is_declared(graph, name);
    out.problems.tensors.push_back({name, out.place(std::move(data), memory),
                                    has_rows ? out.place(std::move(strides), memory) : nullptr});
  }
  return out;
}

std::string failure_of(const Program& program, const Placed& problem) {
  for (std::size_t i = 0; i < problem.tensors.names.size(); ++i) {
    if (!problem.tensors.is_output[i] || problem.tensors.tensors[i].gaps_untouched()) continue;
    return problem.tensors.names[i] + ": bytes between or around its rows were written";
  }
  for (const reference::Verdict& verdict : verify_problem(program, problem.host, problem.device)) {
    if (verdict.failed == 0) continue;
    return fmt::format("{} ({} of {} elements)", verdict.first_failure, verdict.failed,
                       verdict.checked);
  }
  return "";
}

}  // namespace

std::vector<ProblemOutcome> run_as_pointer_arrays(const CorpusCase& which,
                                                  const std::vector<Sizes>& all,
                                                  const Program& program, Memory& memory) {
  const ir::Graph& graph = program.state().source_graph;
  std::list<Placed> placed;
  std::uint64_t seed = 1000;
  for (const Sizes& sizes : all) {
    CorpusTensors tensors = make_tensors(graph, which, sizes, !which.special.empty(), seed++);
    for (std::size_t i = 0; i < tensors.names.size(); ++i) {
      if (is_declared(graph, tensors.names[i])) continue;
      if (!has_even_rows(tensors.tensors[i])) return {};
    }
    if (!placed.empty()) tensors.scalars = placed.front().tensors.scalars;  // they share them
    placed.push_back(place(program, std::move(tensors), memory));
  }
  if (placed.empty()) return {};
  const Arrays arrays = arrays_of(graph, placed, memory);
  program.run_pointer_arrays(arrays.problems);
  std::vector<ProblemOutcome> outcomes;
  for (Placed& each : placed) {
    const std::size_t num_scalars = each.tensors.scalars.size();
    for (std::size_t i = 0; i < each.tensors.names.size(); ++i) {
      if (!each.tensors.is_output[i]) continue;
      memory.fetch(each.tensors.tensors[i], each.device[num_scalars + i].view);
    }
    outcomes.push_back({each.sizes, failure_of(program, each)});
  }
  memory.clear();
  return outcomes;
}

}  // namespace epifuse::testing
