#include "backends/pointer_arrays.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

#include "backends/overlaps.h"
#include "base/strided.h"
#include "codegen/problem_views.h"
#include "epifuse/error.h"
#include "ir/infer_scales.h"
#include "ir/text.h"

namespace epifuse::backends {
namespace {

using codegen::BoundPointerArrays;

// A tensor of the graph that the caller names: an input, or an output's value.
struct Slot {
  std::string_view name;
  ir::ValueId value;
};

std::vector<Slot> slots_of(const ir::Graph& graph) {
  std::vector<Slot> slots;
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    if (graph.nodes[id].op != ir::Op::input) continue;
    slots.push_back({graph.nodes[id].name, static_cast<ir::ValueId>(id)});
  }
  for (const ir::Output& output : graph.outputs) slots.push_back({output.name, output.value});
  return slots;
}

void check_symbols(const ir::Graph& graph, const PointerArrays& problems) {
  const std::vector<std::string> expected = codegen::problem_symbols(graph);
  std::vector<std::string> came = problems.symbols;
  std::ranges::sort(came);
  if (came != expected) {
    throw ArgumentError(fmt::format("problems of graph '{}': expected sizes of {}, got those of {}",
                                    graph.name, fmt::join(expected, ", "),
                                    fmt::join(problems.symbols, ", ")));
  }
  if (problems.count > 0 && !expected.empty() && problems.sizes == nullptr) {
    throw ArgumentError(
        fmt::format("problems of graph '{}': expected an array of sizes, got null", graph.name));
  }
}

bool takes_row_strides(const ir::TensorType& type) {
  return type.shape.size() >= 2 && type.strides.empty();
}

void match_tensors(const ir::Graph& graph, const PointerArrays& problems, BoundPointerArrays& out) {
  std::vector<Slot> missing = slots_of(graph);
  for (const ProblemTensor& tensor : problems.tensors) {
    const auto slot = std::ranges::find(missing, std::string_view(tensor.name), &Slot::name);
    if (slot == missing.end()) {
      throw ArgumentError(fmt::format(
          "graph '{}' has no input or output '{}', or it came twice; it has {}", graph.name,
          tensor.name, fmt::join(slots_of(graph) | std::views::transform(&Slot::name), ", ")));
    }
    const ir::TensorType& type = graph[slot->value].type;
    if (tensor.data == nullptr && problems.count > 0) {
      throw ArgumentError(
          fmt::format("'{}' of {} problems: expected an array of addresses, got "
                      "null",
                      tensor.name, problems.count));
    }
    if (tensor.row_strides != nullptr && !takes_row_strides(type)) {
      throw ArgumentError(fmt::format(
          "'{}' is declared {}: expected no row strides, which are for tensors of two dims or more "
          "without declared strides",
          tensor.name, ir::print(type)));
    }
    out.tensors[static_cast<std::size_t>(slot->value)] = {tensor.data, tensor.row_strides};
    missing.erase(slot);
  }
  if (!missing.empty()) {
    throw ArgumentError(
        fmt::format("nothing is bound to '{}' of graph '{}'", missing.front().name, graph.name));
  }
}

void match_scalars(const ir::Graph& graph, const PointerArrays& problems, BoundPointerArrays& out) {
  std::size_t found = 0;
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const ir::Node& node = graph.nodes[id];
    if (node.op != ir::Op::scalar) continue;
    const auto scalar =
        std::ranges::find(problems.scalars, node.name, &std::pair<std::string, double>::first);
    if (scalar == problems.scalars.end()) {
      throw ArgumentError(
          fmt::format("nothing is bound to scalar '{}' of graph '{}'", node.name, graph.name));
    }
    out.scalars[id] = scalar->second;
    ++found;
  }
  if (found != problems.scalars.size()) {
    throw ArgumentError(fmt::format("graph '{}' has {} run-time scalars, got {}", graph.name, found,
                                    problems.scalars.size()));
  }
}

TensorView view_of(std::string_view name, const ir::TensorType& type,
                   const BoundPointerArrays& problems, ir::ValueId value, std::int64_t i,
                   const Sizes& sizes, DeviceKind device) {
  const BoundPointerArrays::Tensor& arrays = problems.tensors[static_cast<std::size_t>(value)];
  TensorView view;
  view.data = const_cast<void*>(arrays.data[i]);
  view.dtype = type.dtype;
  view.device = device;
  view.shape = ir::eval(type.shape, sizes);
  view.strides = type.strides.empty() ? TensorView::dense_strides(view.shape)
                                      : ir::eval_strides(type.strides, type.shape, sizes);
  if (arrays.row_strides == nullptr) return view;
  std::int64_t stride = arrays.row_strides[i];
  const std::span<const std::int64_t> leading(view.shape.data(), view.shape.size() - 1);
  const bool steps = std::ranges::any_of(leading, [](std::int64_t size) { return size > 1; });
  if (steps && (stride < view.shape.back() || stride > kMaxElements)) {
    throw ArgumentError(
        fmt::format("'{}' has rows of {} elements: expected a row stride of that "
                    "to 2^40, got {}",
                    name, view.shape.back(), stride));
  }
  for (std::size_t d = view.shape.size() - 1; d-- > 0;) {
    view.strides[d] = stride;
    const bool wraps = __builtin_mul_overflow(stride, view.shape[d], &stride);
    if (wraps) throw ArgumentError(fmt::format("'{}' reaches over more than 2^40 elements", name));
  }
  return view;
}

Sizes sizes_of(const BoundPointerArrays& problems, std::int64_t i) {
  Sizes sizes;
  const std::size_t width = problems.symbols.size();
  for (std::size_t s = 0; s < width; ++s) {
    const std::int64_t size = problems.sizes[static_cast<std::size_t>(i) * width + s];
    check_size(problems.symbols[s], size);
    sizes[problems.symbols[s]] = size;
  }
  return sizes;
}

codegen::Bound bound_problem(const plan::Plan& plan, const BoundPointerArrays& problems,
                             std::int64_t i, DeviceKind device) {
  const ir::Graph& graph = plan.graph;
  const Sizes sizes = sizes_of(problems, i);
  std::vector<Binding> tensors;
  for (const Slot& slot : slots_of(graph)) {
    ir::TensorType type = graph[slot.value].type;
    if (graph[slot.value].op != ir::Op::input) type.strides.clear();
    tensors.emplace_back(std::string(slot.name),
                         view_of(slot.name, type, problems, slot.value, i, sizes, device));
  }
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    if (graph.nodes[id].op != ir::Op::scalar) continue;
    tensors.emplace_back(graph.nodes[id].name, problems.scalars[id]);
  }
  return backends::bind(plan, tensors, device);
}

}  // namespace

BoundPointerArrays match_pointer_arrays(const plan::Plan& plan, const PointerArrays& problems) {
  const ir::Graph& graph = plan.graph;
  if (problems.count < 0) {
    throw ArgumentError(
        fmt::format("expected a count of problems of at least 0, got {}", problems.count));
  }
  check_symbols(graph, problems);
  BoundPointerArrays out;
  out.count = problems.count;
  out.symbols = problems.symbols;
  out.sizes = problems.sizes;
  out.host_sizes = problems.host_sizes;
  out.tensors.resize(graph.nodes.size());
  out.scalars.assign(graph.nodes.size(), 0.0);
  match_tensors(graph, problems, out);
  match_scalars(graph, problems, out);
  return out;
}

codegen::Bound bind_problem(const plan::Plan& plan, const BoundPointerArrays& problems,
                            std::int64_t i, DeviceKind device) {
  try {
    return bound_problem(plan, problems, i, device);
  } catch (const ArgumentError& error) {
    throw ArgumentError(fmt::format("problem {}: {}", i, error.what()));
  }
}

codegen::Bound bind_stand_ins(const plan::Plan& plan, Sizes sizes, DeviceKind device) {
  constexpr std::int64_t kUsualSize = 4096;
  const Sizes given = sizes;
  for (const std::string& symbol : codegen::problem_symbols(plan.graph)) {
    sizes.emplace(symbol, kUsualSize);
  }
  ir::set_block_counts(plan.graph, given, sizes);
  std::vector<Binding> tensors;
  const auto add = [&](const std::string& name, const ir::TensorType& type,
                       const ir::Shape& strides) {
    TensorView view{stand_in_address(), type.dtype, ir::eval(type.shape, sizes), {}, device};
    if (!strides.empty()) view.strides = ir::eval_strides(strides, type.shape, sizes);
    tensors.emplace_back(name, std::move(view));
  };
  for (const ir::Node& node : plan.graph.nodes) {
    if (node.op == ir::Op::scalar) tensors.emplace_back(node.name, 0.0);
    if (node.op == ir::Op::input) add(node.name, node.type, node.type.strides);
  }
  for (const ir::Output& output : plan.graph.outputs) {
    add(output.name, plan.graph[output.value].type, {});
  }
  return backends::bind(plan, tensors, device);
}

void run_one_by_one(const Executable& executable, const BoundPointerArrays& problems,
                    DeviceKind device, Stream stream) {
  std::vector<std::shared_ptr<const codegen::Bound>> all;  // all are right before any runs
  for (std::int64_t i = 0; i < problems.count; ++i) {
    all.push_back(std::make_shared<const codegen::Bound>(
        bind_problem(executable.plan(), problems, i, device)));
  }
  check_overlaps(executable.plan(), all);
  for (const auto& bound : all) executable.run(*bound, stream);
}

}  // namespace epifuse::backends
