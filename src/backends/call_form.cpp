#include "backends/call_form.h"

#include "backends/backend.h"

namespace epifuse::backends {

CallForm form_of(const plan::Plan& plan, const codegen::Bound& bound) {
  const ir::Graph& graph = plan.graph;
  CallForm form{bound, {}, {}};
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const ir::Op op = graph.nodes[id].op;
    if (op == ir::Op::input) form.tensors.push_back(static_cast<ir::ValueId>(id));
    if (op == ir::Op::scalar) form.scalars.push_back(static_cast<ir::ValueId>(id));
  }
  for (const ir::Output& output : graph.outputs) form.tensors.push_back(output.value);
  std::vector<codegen::BoundTensor> tensors(bound.tensors.size());
  for (std::size_t i = 0; i < form.tensors.size(); ++i) {
    const auto id = static_cast<std::size_t>(form.tensors[i]);
    const codegen::BoundTensor& from = bound.tensors[id];
    const auto remainder = reinterpret_cast<std::uintptr_t>(from.data) % codegen::kAddressUnit;
    tensors[id] = {codegen::placeholder(i, remainder), from.layout};
  }
  form.bound.tensors = std::move(tensors);
  for (std::size_t i = 0; i < form.scalars.size(); ++i) {
    form.bound.scalars[static_cast<std::size_t>(form.scalars[i])] = codegen::scalar_placeholder(i);
  }
  resolve_views(plan, form.bound);
  return form;
}

void set_values(const codegen::Bound& form, const CallForm& numbers,
                const codegen::CallValues& values, codegen::Bound& copy) {
  for (std::size_t id = 0; id < form.tensors.size(); ++id) {
    void* const data = form.tensors[id].data;
    if (data == nullptr) continue;
    copy.tensors[id].data = reinterpret_cast<void*>(values.address(codegen::place_of(data)));
  }
  for (std::size_t i = 0; i < numbers.scalars.size(); ++i) {
    copy.scalars[static_cast<std::size_t>(numbers.scalars[i])] = values.scalars[i];
  }
}

}  // namespace epifuse::backends
