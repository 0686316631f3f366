// Binds the tensors of a call to the values of a plan, and resolves the views on them.
#include "backends/bind.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "backends/backend.h"
#include "base/check.h"
#include "epifuse/error.h"
#include "ir/text.h"

namespace epifuse::backends {
namespace {

// The stride of a dim of size 1 leads nowhere, and may be any number.
codegen::BoundTensor bound_tensor(const TensorView& view) {
  std::vector<std::int64_t> strides = view.strides_or_dense();
  for (std::size_t d = 0; d < strides.size(); ++d) {
    const bool is_sane = -kMaxElements <= strides[d] && strides[d] <= kMaxElements;
    if (view.shape[d] <= 1 && !is_sane) strides[d] = 0;
  }
  return {view.data, {0, view.shape, std::move(strides)}};
}

// Values that the steps of a plan read or write.
std::vector<bool> used_values(const plan::Plan& plan) {
  std::vector<bool> used(plan.graph.nodes.size(), false);
  const auto use = [&](ir::ValueId id) { used[static_cast<std::size_t>(id)] = true; };
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    if (const auto* step = std::get_if<plan::FusedGemm>(&plan.steps[i])) {
      for (const ir::ValueId operand : step->gemm.reads()) use(operand);
    }
    for (const plan::Load& load : plan.epilogue(i).loads) use(load.value);
    for (const plan::Store& store : plan.epilogue(i).stores) use(store.value);
  }
  return used;
}

// Throws ArgumentError for values of a step that have more elements than kMaxElements, though they
// may never lie in memory, where block scales are not as many as their product needs, and where
// sums of i8 may leave 32 bits.
void check_steps(const plan::Plan& plan, const Sizes& sizes) {
  for (const plan::Step& step : plan.steps) {
    if (const auto* fused = std::get_if<plan::FusedGemm>(&step)) {
      ir::eval(plan.graph[fused->gemm.matmul].type.shape, sizes);
      const ir::Node& product = plan.graph[fused->gemm.matmul];
      ir::check_integer_sums(plan.graph, product, sizes);
      if (fused->gemm.is_scaled()) ir::check_block_scales(plan.graph, product, sizes);
    } else {
      ir::eval(std::get<plan::Tail>(step).shape, sizes);
    }
  }
}

// False where the view of bound memory is none that strides can express.
bool try_resolve(const ir::Graph& graph, ir::ValueId id, codegen::Bound& bound) {
  codegen::BoundTensor& tensor = bound[id];
  if (!ir::is_view(graph[id].op) || tensor.data != nullptr) return true;
  const ir::ValueId root = ir::storage(graph, id);
  const codegen::BoundTensor& memory = bound[root];
  if (memory.layout.shape.size() != graph[root].type.shape.size()) return true;  // not bound yet
  const std::optional<ir::Layout> layout = ir::resolve(graph, id, memory.layout, bound.sizes);
  if (layout) tensor = {memory.data, *layout};
  return layout.has_value();
}

[[noreturn]] void fail_to_resolve(const ir::Graph& graph, ir::ValueId id) {
  const std::string& root = graph[ir::storage(graph, id)].name;
  throw NeedsCopy(
      fmt::format("'{}' ({}) needs a copy with the strides that '{}' came with: make it contiguous",
                  graph[id].name, ir::print(graph[id].type.shape), root),
      root);
}

}  // namespace

codegen::Bound bind_sources(const ir::Graph& graph, const Matched& matched) {
  codegen::Bound bound;
  bound.sizes = matched.sizes;
  bound.tensors.resize(graph.nodes.size());
  bound.scalars.assign(graph.nodes.size(), 0.0);
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const Binding* binding = matched.sources[id];
    if (binding == nullptr) continue;
    bound.scalars[id] = binding->scalar;
    if (graph.nodes[id].op == ir::Op::input) bound.tensors[id] = bound_tensor(binding->view);
  }
  return bound;
}

codegen::Bound bind(const plan::Plan& plan, std::span<const Binding> tensors, DeviceKind device) {
  const ir::Graph& graph = plan.graph;
  const Matched matched = match(graph, tensors, device, Outputs::required);
  codegen::Bound bound = bind_sources(graph, matched);
  std::vector<bool> is_written(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const auto id = static_cast<std::size_t>(graph.outputs[i].value);
    EPIFUSE_CHECK(!ir::is_source(graph.nodes[id].op) && !is_written[id],
                  "the outputs of a plan are values of their own");
    is_written[id] = true;
    bound.tensors[id] = bound_tensor(matched.outputs[i]->view);
  }
  check_steps(plan, bound.sizes);
  resolve_views(plan, bound);
  return bound;
}

void resolve_views(const plan::Plan& plan, codegen::Bound& bound) {
  const ir::Graph& graph = plan.graph;
  const std::vector<bool> used = used_values(plan);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto id = static_cast<ir::ValueId>(i);
    if (!try_resolve(graph, id, bound) && used[i]) fail_to_resolve(graph, id);
  }
}

void resolve_view(const ir::Graph& graph, ir::ValueId id, codegen::Bound& bound) {
  if (!try_resolve(graph, id, bound)) fail_to_resolve(graph, id);
}

}  // namespace epifuse::backends
