#include "backends/cuda/run/prepared_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backends/cuda/run/run_parts.h"
#include "base/check.h"
#include "epifuse/error.h"

namespace epifuse::cuda {
namespace {

// A call's bases, where there are none an address that a tensor map may have; the workspace last.
std::vector<std::uintptr_t> with_workspace(std::span<const std::uintptr_t> bases,
                                           std::uintptr_t workspace) {
  std::vector<std::uintptr_t> out;
  out.reserve(bases.size() + 1);
  for (const std::uintptr_t base : bases) {
    out.push_back(base == 0 ? codegen::kAddressUnit : base);
  }
  out.push_back(workspace == 0 ? codegen::kAddressUnit : workspace);
  return out;
}

PatchedAction patched(const Device& device, BuiltAction first, const BuiltAction& second,
                      const codegen::CallValues& values) {
  if (auto* launch = std::get_if<BuiltLaunch>(&first)) {
    return prepare_call(
        device, launch->function,
        codegen::find_patches(std::move(launch->launch), std::get<BuiltLaunch>(second).launch),
        values);
  }
  if (auto* vendor = std::get_if<VendorAction>(&first)) {
    const VendorCall& call = vendor->call;
    EPIFUSE_CHECK(std::get<VendorAction>(second).call.kernel == call.kernel,
                  "a vendor's kernel does not depend on addresses");
    PatchedVendor out{{},
                      codegen::place_of(call.a),
                      codegen::place_of(call.b),
                      codegen::place_of(call.d),
                      codegen::place_of(vendor->workspace)};
    out.action = std::move(*vendor);
    return out;
  }
  const ClearAction& clear = std::get<ClearAction>(first);
  return PatchedClear{clear, codegen::place_of(reinterpret_cast<const void*>(clear.data))};
}

// Throws ArgumentError for a tensor whose address the driver does not know: a kernel would fault on
// it, and nothing would run in the context any more.
void check_memory(const Device& device, const ir::Graph& graph, const backends::CallForm& form,
                  const codegen::CallValues& values) {
  if (device.info().reads_any_host_memory) return;
  const std::size_t num_inputs = form.tensors.size() - graph.outputs.size();
  for (std::size_t i = 0; i < form.tensors.size(); ++i) {
    const auto id = static_cast<std::size_t>(form.tensors[i]);
    const codegen::BoundTensor& tensor = form.bound.tensors[id];
    if (std::ranges::find(tensor.layout.shape, 0) != tensor.layout.shape.end()) continue;
    const std::uintptr_t address = values.address(codegen::place_of(tensor.data));
    unsigned type = 0;
    const jit::CuResult result =
        device.api().pointer_get_attribute(&type, jit::CuPointerAttribute::memory_type, address);
    if (result != jit::kCudaInvalidValue) {
      device.check(result, "cuPointerGetAttribute");
      continue;
    }
    const bool is_input = i < num_inputs;
    throw ArgumentError(fmt::format(
        "{} '{}' lies at {:#x}: expected memory of a GPU, or of the host where it is pinned, got "
        "other memory",
        is_input ? "input" : "output",
        is_input ? graph.nodes[id].name : graph.outputs[i - num_inputs].name, address));
  }
}

void* pointer(const codegen::CallValues& values, const codegen::AddressPlace& place) {
  return reinterpret_cast<void*>(values.address(place));
}

void queue(const Device& device, const PatchedAction& action, const codegen::CallValues& values,
           jit::CuStream stream) {
  if (const auto* kernel = std::get_if<PatchedCall>(&action)) {
    run(device, *kernel, values, stream);
  } else if (const auto* vendor = std::get_if<PatchedVendor>(&action)) {
    const VendorCall call{vendor->action.call.kernel, pointer(values, vendor->a),
                          pointer(values, vendor->b), pointer(values, vendor->d)};
    vendor->action.gemm->run(call, pointer(values, vendor->workspace), stream);
  } else {
    const auto& clear = std::get<PatchedClear>(action);
    ClearAction here = clear.action;
    here.data = values.address(clear.data);
    run(device, Action(here), stream);
  }
}

}  // namespace

void PreparedRun::run(const codegen::CallValues& values, jit::CuStream stream) const {
  const Workspace workspace(*context, workspace_bytes, stream);
  const std::vector<std::uintptr_t> bases =
      with_workspace(values.bases, reinterpret_cast<std::uintptr_t>(workspace.data()));
  const codegen::CallValues all{bases, values.scalars};
  for (const PatchedAction& action : actions) queue(context->device(), action, all, stream);
}

PreparedRun prepare_run(const Prepared& prepared, LateKernels& late,
                        std::shared_ptr<Context> context, const backends::CallForm& form,
                        const codegen::CallValues& values) {
  check_memory(context->device(), prepared.plan.graph, form, values);
  void* const workspace = codegen::placeholder(form.tensors.size());
  const auto build = [&](const codegen::Bound& bound, void* behind) {
    return RunBuilder(prepared, late, context.get(), context->rules(), bound,
                      static_cast<char*>(behind));
  };
  RunBuilder first = build(form.bound, workspace);
  PreparedRun out;
  out.workspace_bytes = first.num_bytes();
  std::vector<BuiltAction> actions = first.take_actions();
  const std::vector<BuiltAction> others =
      build(codegen::with_second_placeholders(form.bound), codegen::second_placeholder(workspace))
          .take_actions();
  EPIFUSE_CHECK(actions.size() == others.size(), "a run does not depend on addresses");
  const std::vector<std::uintptr_t> bases = with_workspace(values.bases, 0);
  for (std::size_t i = 0; i < actions.size(); ++i) {
    out.actions.push_back(
        patched(context->device(), std::move(actions[i]), others[i], {bases, values.scalars}));
    const auto* kernel = std::get_if<PatchedCall>(&out.actions.back());
    if (kernel != nullptr) out.num_maps += std::ssize(kernel->maps);
  }
  out.context = std::move(context);
  return out;
}

}  // namespace epifuse::cuda
