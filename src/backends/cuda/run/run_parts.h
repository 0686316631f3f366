// Goes through a run once, for the files that add its parts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <variant>
#include <vector>

#include "backends/backend.h"
#include "backends/cuda/choose/step_choice.h"
#include "backends/cuda/run/product.h"
#include "backends/cuda/run/run_builder.h"

namespace epifuse::cuda {

// Row-major, without gaps.
codegen::BoundTensor dense(void* data, const std::vector<std::int64_t>& shape);
std::int64_t count(const std::vector<std::int64_t>& shape);

// A launch whose tensor maps are not encoded yet.
struct BuiltLaunch {
  jit::CuFunction function = nullptr;
  codegen::Launch launch;
};
using BuiltAction = std::variant<BuiltLaunch, VendorAction, ClearAction>;

// Goes through a run once; without a context it only adds up the workspace.
class RunBuilder {
 public:
  RunBuilder(const Prepared& prepared, LateKernels& late, Context* context,
             const ChoiceRules& rules, const codegen::Bound& bound, char* workspace)
      : late_(late),
        context_(context),
        rules_(rules),
        allow_tf32_(prepared.plan.allow_tf32),
        bound_(bound),
        workspace_(workspace) {
    stand_in_for_empty(prepared.plan.graph);
    place_temporaries(prepared.plan);
    for (std::size_t i = 0; i < prepared.steps.size();) {
      const std::size_t begin = actions_.size(), together = add_side_by_side(prepared, i);
      if (together == 0) add_step(prepared, i);
      const std::size_t end = i + std::max<std::size_t>(together, 1);
      step_begins_.push_back(begin);
      for (++i; i < end; ++i) step_begins_.push_back(actions_.size());  // the first one's are all
    }
    step_begins_.push_back(actions_.size());
  }

  // The launches of so many steps of the plan, after construction.
  std::vector<BuiltAction> take_steps(std::size_t first, std::size_t count) {
    const auto begin = actions_.begin() + static_cast<std::ptrdiff_t>(step_begins_[first]);
    const auto end = actions_.begin() + static_cast<std::ptrdiff_t>(step_begins_[first + count]);
    return {std::make_move_iterator(begin), std::make_move_iterator(end)};
  }

  std::size_t num_bytes() const { return num_bytes_; }
  std::vector<BuiltAction> take_actions() { return std::move(actions_); }
  backends::RunPlan take_plan() { return std::move(plan_); }

 private:
  void stand_in_for_empty(const ir::Graph& graph);
  void* take(std::size_t bytes);
  void place_temporaries(const plan::Plan& plan);
  void place(const plan::Plan& plan, ir::ValueId id);
  void add_split(const plan::Plan& plan, const PreparedSteps& parts);
  void add_step(const Prepared& prepared, std::size_t step);
  // The number of steps from this one on that became one launch; 0: none.
  std::size_t add_side_by_side(const Prepared& prepared, std::size_t step);
  void add_alone(const plan::Plan& plan, const plan::Step& step, const StepKernels& kernels);
  void add_family(const Prepared& prepared, std::size_t step, const StepChoice& choice);
  void add_behind_copies(const Prepared& prepared, std::size_t index, const StepChoice& choice);
  void add_transposes(const StepKernels& kernels, std::vector<AlignedCopy>& copies);
  bool add_in_order(const plan::Plan& plan, std::size_t index, InOrder& product);
  void add_row_copy(const plan::Plan& plan, const ir::Node& node, codegen::BoundTensor from,
                    const codegen::BoundTensor& to);
  void place_scratch(const plan::FusedGemm& step, const StepKernels& kernels,
                     const codegen::GemmConfig& config);
  std::vector<codegen::BoundTensor> place_partials(const plan::FusedGemm& step,
                                                   const codegen::Partials& partials);
  void swap_reductions(const plan::FusedGemm& step, std::vector<codegen::BoundTensor>& tensors);
  void add_finalize(const plan::FusedGemm& step, const Finalize& finalize,
                    const codegen::Partials& partials,
                    const std::vector<codegen::BoundTensor>& placed);
  void add_tail(const plan::Plan& plan, const plan::Tail& tail, const StepKernels& kernels,
                const codegen::Bound& bound);
  void add_grouped(const plan::Plan& plan, const plan::FusedGemm& step, const Kernel& kernel);
  void add_launch(const Kernel& kernel, codegen::Launch launch);
  void add_product(const plan::FusedGemm& step, bool allows_tf32);
  // A bare product, of copies of its operands where blocks of them have scales.
  plan::FusedGemm on_scaled_copies(const plan::Plan& plan, plan::FusedGemm bare);
  void put_in_order(const plan::Plan& plan, plan::Operand& operand);
  void scale(plan::Operand& operand, bool k_is_last, const plan::OperandScales& scales);
  void add_scaled_copy(const codegen::BoundTensor& from, DType dtype,
                       const codegen::BoundTensor& scales, const codegen::BoundTensor& to);
  void add_copy(const codegen::BoundTensor& from, DType from_dtype, const codegen::BoundTensor& to,
                DType to_dtype);
  void pack(Product& product, StridedMatrix& matrix, std::int64_t BatchDim::*stride,
            std::int64_t rows, std::int64_t cols);
  void multiply(const Product& product);
  void clear(const Product& product);

  LateKernels& late_;
  Context* context_;
  ChoiceRules rules_;
  bool allow_tf32_;
  codegen::Bound bound_;  // with the temporaries
  char* workspace_;
  std::size_t num_bytes_ = 0;
  void* vendor_workspace_ = nullptr;
  std::vector<BuiltAction> actions_;
  std::vector<std::size_t> step_begins_;  // in actions_, of each step of the plan; then the end
  backends::RunPlan plan_;                // but for its graph
};

}  // namespace epifuse::cuda
