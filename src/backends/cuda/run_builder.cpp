// Turns a plan and bound tensors into a list of launches with everything prepared.
#include "backends/cuda/run_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "backends/backend.h"
#include "backends/cuda/step_choice.h"
#include "base/check.h"
#include "codegen/matrix_view.h"
#include "epifuse/tensor.h"
#include "ir/views.h"
#include "tune/shortlist.h"

namespace epifuse::cuda {
namespace {

using codegen::Bound;
using codegen::BoundTensor;

constexpr std::size_t kAlignment = 256;  // of everything in the workspace

// Stands for memory that is not there: of tensors without elements, and while only measuring.
char* nowhere() { return reinterpret_cast<char*>(kAlignment); }

std::int64_t count(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

BoundTensor dense(void* data, const std::vector<std::int64_t>& shape) {
  return {data, {0, shape, TensorView::dense_strides(shape)}};
}

// Goes through a run once; without a context it only adds up the workspace.
class RunBuilder {
 public:
  RunBuilder(const Prepared& prepared, LateKernels& late, Context* context,
             const ChoiceRules& rules, const Bound& bound, char* workspace)
      : late_(late),
        context_(context),
        rules_(rules),
        allow_tf32_(prepared.plan.allow_tf32),
        bound_(bound),
        workspace_(workspace) {
    stand_in_for_empty(prepared.plan.graph);
    place_temporaries(prepared.plan);
    for (std::size_t i = 0; i < prepared.steps.size(); ++i) {
      step_begins_.push_back(actions_.size());
      add_step(prepared, i);
    }
    step_begins_.push_back(actions_.size());
  }

  // The launches of one step of the plan, after construction.
  std::vector<Action> take_step(std::size_t step) {
    const auto begin = actions_.begin() + static_cast<std::ptrdiff_t>(step_begins_[step]);
    const auto end = actions_.begin() + static_cast<std::ptrdiff_t>(step_begins_[step + 1]);
    return {std::make_move_iterator(begin), std::make_move_iterator(end)};
  }

  std::size_t num_bytes() const { return num_bytes_; }
  std::vector<Action> take_actions() { return std::move(actions_); }
  backends::RunPlan take_plan() { return std::move(plan_); }

 private:
  void stand_in_for_empty(const ir::Graph& graph);
  void* take(std::size_t bytes);
  void place_temporaries(const plan::Plan& plan);
  void add_plan(const Prepared& prepared);
  void add_step(const Prepared& prepared, std::size_t step);
  void add_family(const Prepared& prepared, std::size_t step, const StepChoice& choice);
  bool add_in_order(const plan::Plan& plan, const plan::FusedGemm& step, InOrder& product);
  void add_row_copy(const plan::Plan& plan, ir::ValueId rows, const BoundTensor& to);
  void place_partials(const plan::FusedGemm& step, const codegen::Partials& partials, Bound& bound);
  void add_finish(const plan::FusedGemm& step, const Finish& finish,
                  const codegen::Partials& partials, const Bound& placed);
  void add_tail(const plan::Plan& plan, const plan::Tail& tail, const StepKernels& kernels,
                const Bound& bound);
  void add_grouped(const plan::Plan& plan, const plan::FusedGemm& step, const Kernel& kernel);
  void add_launch(const Kernel& kernel, codegen::Launch launch);
  void add_product(const plan::FusedGemm& step);
  void add_copy(const BoundTensor& from, DType from_dtype, const BoundTensor& to, DType to_dtype);
  void pack(Product& product, StridedMatrix& matrix, std::int64_t BatchDim::*stride,
            std::int64_t rows, std::int64_t cols);
  void multiply(const Product& product);
  void clear(const Product& product);

  LateKernels& late_;
  Context* context_;
  ChoiceRules rules_;
  bool allow_tf32_;
  Bound bound_;  // with the temporaries
  char* workspace_;
  std::size_t num_bytes_ = 0;
  void* vendor_workspace_ = nullptr;
  std::vector<Action> actions_;
  std::vector<std::size_t> step_begins_;  // in actions_, of each step of the plan; then the end
  backends::RunPlan plan_;                // but for its graph
};

void RunBuilder::stand_in_for_empty(const ir::Graph& graph) {
  const auto stand_in = [&](ir::ValueId id) {
    BoundTensor& tensor = bound_.tensors[static_cast<std::size_t>(id)];
    if (tensor.data == nullptr) tensor.data = nowhere();
  };
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    if (graph.nodes[id].op == ir::Op::input) stand_in(static_cast<ir::ValueId>(id));
  }
  for (const ir::Output& output : graph.outputs) stand_in(output.value);
}

void* RunBuilder::take(std::size_t bytes) {
  void* data = workspace_ + num_bytes_;
  num_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return data;
}

void RunBuilder::place_temporaries(const plan::Plan& plan) {
  for (ir::ValueId id : plan.temporaries()) {
    BoundTensor& tensor = bound_.tensors[static_cast<std::size_t>(id)];
    if (tensor.data != nullptr) continue;
    const ir::TensorType& type = plan.graph[id].type;
    const std::vector<std::int64_t> shape = ir::eval(type.shape, bound_.sizes);
    tensor = dense(take(static_cast<std::size_t>(count(shape)) * size_bytes(type.dtype)), shape);
  }
  backends::resolve_views(plan, bound_);
}

void RunBuilder::add_plan(const Prepared& prepared) {
  place_temporaries(prepared.plan);
  for (std::size_t i = 0; i < prepared.steps.size(); ++i) add_step(prepared, i);
}

void RunBuilder::add_step(const Prepared& prepared, std::size_t index) {
  const plan::Step& step = prepared.plan.steps[index];
  const StepKernels& kernels = prepared.steps[index];
  std::string how = kernels.report.how;
  StepChoice choice;
  if (kernels.kind == StepKind::family) {
    choice = choose_step(prepared, index, late_, bound_, rules_);
    if (choice.why_split) {
      const bool is_bare = plan::is_bare(std::get<plan::FusedGemm>(step));
      if (!is_bare) plan_.splits.push_back(*std::move(choice.why_split));
      add_plan(late_.split(prepared.plan, index));
      if (is_bare) plan_.grounds.back() = grounds(choice);
      return;
    }
    if (choice.in_order != nullptr &&
        add_in_order(prepared.plan, std::get<plan::FusedGemm>(step), *choice.in_order)) {
      return;
    }
    how = print(choice);
  }
  plan_.plan.steps.push_back(step);
  plan_.how.push_back(std::move(how));
  plan_.grounds.push_back(grounds(choice));
  switch (kernels.kind) {
    case StepKind::family: add_family(prepared, index, choice); break;
    case StepKind::vendor: add_product(std::get<plan::FusedGemm>(step)); break;
    case StepKind::grouped:
      add_grouped(prepared.plan, std::get<plan::FusedGemm>(step), kernels.kernels.front());
      break;
    case StepKind::tail:
      add_tail(prepared.plan, std::get<plan::Tail>(step), kernels, bound_);
      break;
  }
}

void RunBuilder::add_family(const Prepared& prepared, std::size_t index, const StepChoice& choice) {
  const auto& step = std::get<plan::FusedGemm>(prepared.plan.steps[index]);
  const codegen::GemmSizes sizes = tune::gemm_sizes(step.gemm, bound_.sizes);
  if (sizes.is_empty()) return;
  const StepKernels& kernels = *choice.kernels;
  const codegen::GemmConfig& config = choice.kernel->config;
  Bound bound = bound_;
  codegen::Partials partials;
  if (step.epilogue.reduces()) {
    partials = kernels.family->partials(step, config, kernels.variant, bound_.sizes, rules_.limits);
    place_partials(step, partials, bound);
  }
  if (context_ == nullptr) return;
  add_launch(*choice.kernel, kernels.family->launch(prepared.plan, step, config, kernels.variant,
                                                    bound, rules_.limits));
  if (step.epilogue.reduces()) add_finish(step, *prepared.steps[index].finish, partials, bound);
}

// A copy of the rows of A that are looked up, then the product of the copy. False where that is not
// one kernel on these tensors.
bool RunBuilder::add_in_order(const plan::Plan& plan, const plan::FusedGemm& step,
                              InOrder& product) {
  const ir::ValueId rows = step.gemm.a.value;
  const ir::TensorType& type = plan.graph[rows].type;
  const std::vector<std::int64_t> shape = ir::eval(type.shape, bound_.sizes);
  const BoundTensor looked_up = bound_.tensors[static_cast<std::size_t>(rows)];
  const BoundTensor copy =
      dense(take(static_cast<std::size_t>(count(shape)) * size_bytes(type.dtype)), shape);
  bound_.tensors[static_cast<std::size_t>(rows)] = copy;
  const StepChoice choice = choose_step(product.prepared, 0, product.late, bound_, {rules_.limits});
  if (!choice.why_split) {
    plan_.plan.steps.push_back(product.prepared.plan.steps.front());
    plan_.how.push_back(
        fmt::format("{}, behind a copy of the rows of {}", print(choice), plan.graph[rows].name));
    plan_.grounds.push_back(grounds(choice));
    add_row_copy(plan, rows, copy);
    add_family(product.prepared, 0, choice);
  }
  bound_.tensors[static_cast<std::size_t>(rows)] = looked_up;
  return !choice.why_split;
}

void RunBuilder::add_row_copy(const plan::Plan& plan, ir::ValueId rows, const BoundTensor& to) {
  const ir::Node& node = plan.graph[rows];
  const auto bound_of = [&](ir::ValueId id) {
    return bound_.tensors[static_cast<std::size_t>(id)];
  };
  const BoundTensor from = bound_of(node.args.front()), index = bound_of(ir::index_of(node));
  const DType index_dtype = plan.graph[ir::index_of(node)].type.dtype;
  const Prepared& copy = late_.row_copy(node.type.dtype, index_dtype);
  const auto& tail = std::get<plan::Tail>(copy.plan.steps.front());
  Bound bound;
  bound.sizes = {
      {"S", from.layout.shape[0]}, {"K", from.layout.shape[1]}, {"T", to.layout.shape[0]}};
  bound.tensors.resize(copy.plan.graph.nodes.size());
  bound.tensors[0] = from;
  bound.tensors[1] = index;
  bound.tensors[static_cast<std::size_t>(copy.plan.graph.outputs.front().value)] = to;
  bound.scalars.assign(bound.tensors.size(), 0.0);
  backends::resolve_views(copy.plan, bound);
  add_tail(copy.plan, tail, copy.steps.front(), bound);
}

void RunBuilder::place_partials(const plan::FusedGemm& step, const codegen::Partials& partials,
                                Bound& bound) {
  for (const plan::Store& store : step.epilogue.stores) {
    if (store.kind == plan::StoreKind::tile) continue;
    bound.tensors[static_cast<std::size_t>(store.value)] = {take(partials.bytes), partials.layout};
  }
}

// The result of a reduction as a tail over its parts sees it: [batch.., 1, length].
BoundTensor finished(const plan::FusedGemm& step, const plan::Store& store, BoundTensor tensor) {
  if (!plan::reduces_rows(store.kind)) return tensor;
  std::vector<std::int64_t>&shape = tensor.layout.shape, &strides = tensor.layout.strides;
  if (step.gemm.batch.empty()) {
    const auto rows = codegen::as_matrix(tensor, store.dtype);
    EPIFUSE_CHECK(rows.has_value(), "rows that do not step evenly are refused by why_not_bound");
    shape = {rows->rows, 1};
    strides = {rows->row_stride, 1};
  }
  std::swap(shape[shape.size() - 2], shape.back());
  std::swap(strides[shape.size() - 2], strides.back());
  return tensor;
}

void RunBuilder::add_finish(const plan::FusedGemm& step, const Finish& finish,
                            const codegen::Partials& partials, const Bound& placed) {
  Bound bound;
  const ir::Shape& shape = finish.tail().shape;
  std::vector<std::int64_t> sizes = partials.layout.shape;
  sizes[sizes.size() - 2] = partials.num_parts;
  for (std::size_t d = 0; d < shape.size(); ++d) bound.sizes[*shape[d].symbol()] = sizes[d];
  for (const plan::Store& store : step.epilogue.stores) {
    if (store.kind == plan::StoreKind::tile) continue;
    const auto value = static_cast<std::size_t>(store.value);
    bound.tensors.push_back(placed.tensors[value]);
    bound.tensors.back().layout.shape = sizes;
    bound.tensors.push_back(finished(step, store, bound_.tensors[value]));
  }
  bound.scalars.assign(bound.tensors.size(), 0.0);
  add_launch(finish.kernel, codegen::tail_launch(finish.plan, finish.tail(), bound, rules_.limits));
}

void RunBuilder::add_tail(const plan::Plan& plan, const plan::Tail& tail,
                          const StepKernels& kernels, const Bound& bound) {
  if (context_ == nullptr) return;
  add_launch(kernels.kernels.front(), codegen::tail_launch(plan, tail, bound, rules_.limits));
}

void RunBuilder::add_grouped(const plan::Plan& plan, const plan::FusedGemm& step,
                             const Kernel& kernel) {
  if (context_ == nullptr) return;
  add_launch(kernel, codegen::grouped_launch(plan, step, bound_, rules_.limits));
}

void RunBuilder::add_launch(const Kernel& kernel, codegen::Launch launch) {
  if (launch.grid == 0) return;
  const jit::CuFunction function =
      context_->modules().get(kernel.binary, kernel.source.entry, launch.smem_bytes);
  actions_.emplace_back(prepare_call(context_->device(), function, std::move(launch)));
}

void RunBuilder::add_copy(const BoundTensor& from, DType from_dtype, const BoundTensor& to,
                          DType to_dtype) {
  const std::vector<std::int64_t>& shape = to.layout.shape;
  const Prepared& copy = late_.copy(from_dtype, to_dtype, shape.size());
  const auto& tail = std::get<plan::Tail>(copy.plan.steps.front());
  Bound bound;
  for (std::size_t d = 0; d < shape.size(); ++d) bound.sizes[*tail.shape[d].symbol()] = shape[d];
  bound.tensors = {from, to};
  bound.scalars.assign(2, 0.0);
  add_tail(copy.plan, tail, copy.steps.front(), bound);
}

// The matrix as a tensor of the batch dims it varies along (the others have size 1), rows, columns.
BoundTensor batched_tensor(const Product& product, const StridedMatrix& matrix,
                           std::int64_t BatchDim::*stride, std::int64_t rows, std::int64_t cols) {
  BoundTensor tensor;
  tensor.data = matrix.data;
  for (const BatchDim& dim : product.batch) {
    tensor.layout.shape.push_back(dim.*stride == 0 ? 1 : dim.size);
    tensor.layout.strides.push_back(dim.*stride);
  }
  for (std::int64_t size : {rows, cols}) tensor.layout.shape.push_back(size);
  for (std::int64_t step : {matrix.row_stride, matrix.col_stride}) {
    tensor.layout.strides.push_back(step);
  }
  return tensor;
}

// Points `matrix` and its batch strides at a dense tensor of the same shape.
void point_to(const BoundTensor& tensor, DType dtype, Product& product, StridedMatrix& matrix,
              std::int64_t BatchDim::*stride) {
  const std::size_t num_batch = product.batch.size();
  const std::vector<std::int64_t>& strides = tensor.layout.strides;
  matrix = {tensor.data, dtype, strides[num_batch], strides[num_batch + 1]};
  for (std::size_t i = 0; i < num_batch; ++i) {
    const bool varies = product.batch[i].*stride != 0;
    product.batch[i].*stride = varies ? strides[i] : 0;
  }
}

void RunBuilder::pack(Product& product, StridedMatrix& matrix, std::int64_t BatchDim::*stride,
                      std::int64_t rows, std::int64_t cols) {
  if (leading(matrix, rows, cols)) return;
  const DType dtype = matrix.dtype;
  const BoundTensor from = batched_tensor(product, matrix, stride, rows, cols);
  const auto bytes = static_cast<std::size_t>(count(from.layout.shape)) * size_bytes(dtype);
  const BoundTensor to = dense(take(bytes), from.layout.shape);
  add_copy(from, dtype, to, dtype);
  point_to(to, dtype, product, matrix, stride);
}

void RunBuilder::add_product(const plan::FusedGemm& step) {
  Product product = simplify(product_of(step, bound_));
  product.tf32 = allow_tf32_ && product.a.dtype == DType::f32;
  std::int64_t num_products = 1;
  for (const BatchDim& dim : product.batch) num_products *= dim.size;
  if (product.m * product.n * num_products == 0) return;

  if (product.k > 0) {
    pack(product, product.a, &BatchDim::a_stride, product.m, product.k);
    pack(product, product.b, &BatchDim::b_stride, product.k, product.n);
  }
  const bool direct = has_direct_result(product.a.dtype, product.d.dtype);
  const auto d_leading = leading(product.d, product.m, product.n);
  if (direct && d_leading && d_leading->row_major) {
    multiply(product);
    return;
  }
  const BoundTensor result =
      batched_tensor(product, product.d, &BatchDim::d_stride, product.m, product.n);
  const DType result_dtype = product.d.dtype, staged = direct ? result_dtype : DType::f32;
  const BoundTensor stage =
      dense(take(static_cast<std::size_t>(count(result.layout.shape)) * size_bytes(staged)),
            result.layout.shape);
  point_to(stage, staged, product, product.d, &BatchDim::d_stride);
  multiply(product);
  add_copy(stage, staged, result, result_dtype);
}

void RunBuilder::multiply(const Product& product) {
  if (product.k == 0) return clear(product);
  if (vendor_workspace_ == nullptr) vendor_workspace_ = take(VendorGemm::kWorkspaceBytes);
  if (context_ == nullptr) return;
  VendorGemm& gemm = context_->vendor();
  for (VendorCall& call : gemm.calls(product)) {
    actions_.emplace_back(VendorAction{&gemm, std::move(call), vendor_workspace_});
  }
}

// A sum of no products.
void RunBuilder::clear(const Product& product) {
  if (context_ == nullptr) return;
  const std::size_t bytes = size_bytes(product.d.dtype);
  std::vector<std::int64_t> offsets{0};
  for (const BatchDim& dim : product.batch) {
    std::vector<std::int64_t> finer;
    for (std::int64_t offset : offsets) {
      for (std::int64_t i = 0; i < dim.size; ++i) finer.push_back(offset + i * dim.d_stride);
    }
    offsets = std::move(finer);
  }
  for (std::int64_t offset : offsets) {
    const auto data = reinterpret_cast<jit::CuDevicePtr>(product.d.data) +
                      static_cast<std::size_t>(offset) * bytes;
    const auto width = static_cast<std::size_t>(product.n) * bytes;
    const auto stride = static_cast<std::size_t>(product.d.row_stride) * bytes;
    actions_.emplace_back(
        ClearAction{data, std::max(stride, width), width, static_cast<std::size_t>(product.m)});
  }
}

}  // namespace

std::size_t workspace_bytes(const Prepared& prepared, LateKernels& late, const ChoiceRules& rules,
                            const Bound& bound) {
  return RunBuilder(prepared, late, nullptr, rules, bound, nowhere()).num_bytes();
}

backends::RunPlan plan_of_run(const Prepared& prepared, LateKernels& late, const ChoiceRules& rules,
                              const Bound& bound) {
  backends::RunPlan run = RunBuilder(prepared, late, nullptr, rules, bound, nowhere()).take_plan();
  std::vector<plan::Step> steps = std::move(run.plan.steps);
  run.plan = prepared.plan;
  run.plan.steps = std::move(steps);
  return run;
}

std::vector<Action> build_run(const Prepared& prepared, LateKernels& late, Context& context,
                              const Bound& bound, char* workspace) {
  return RunBuilder(prepared, late, &context, context.rules(), bound, workspace).take_actions();
}

std::vector<Action> build_step(const Prepared& prepared, std::size_t step, LateKernels& late,
                               Context& context, const ChoiceRules& rules, const Bound& bound,
                               char* workspace) {
  return RunBuilder(prepared, late, &context, rules, bound, workspace).take_step(step);
}

void run(const Device& device, const Action& action, jit::CuStream stream) {
  if (const auto* kernel = std::get_if<KernelCall>(&action)) {
    run(device, *kernel, stream);
  } else if (const auto* vendor = std::get_if<VendorAction>(&action)) {
    vendor->gemm->run(vendor->call, vendor->workspace, stream);
  } else {
    const auto& clear = std::get<ClearAction>(action);
    device.check(device.api().memset_2d_d8_async(clear.data, clear.pitch_bytes, 0,
                                                 clear.width_bytes, clear.num_rows, stream),
                 "cuMemsetD2D8Async");
  }
}

}  // namespace epifuse::cuda
