// Kernels that only certain tensors need, compiled when such tensors come: copies of operands that
// no GEMM can address, the split form of fused steps, other variants of their kernels.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/cuda/choose/chosen_kernels.h"
#include "backends/cuda/choose/time_memo.h"
#include "backends/cuda/prepare/prepare.h"
#include "codegen/side_by_side.h"

namespace epifuse::cuda {

struct InOrder;

// Kernels of one kind that take several steps in one launch. No candidates where none compiles
// well, or there is no compiler.
struct SideBySideKernels {
  std::vector<codegen::GemmConfig> candidates;
  std::deque<Kernel> kernels;  // those that were asked for
};

// Of such steps.
struct SideBySideKernel {
  const Kernel* kernel = nullptr;  // null: none is expected to take less than asked for
  double us = 0;                   // expected
};

// Of one prepared plan. Thread-safe; results stay valid as long as the object.
class LateKernels {
 public:
  // `for_sizes`: whether sizes alone are a reason to compile (CompileOptions::compile_late).
  // `device` and `family`: as prepare_steps has them.
  LateKernels(const targets::TargetInfo& target, std::shared_ptr<jit::Jit> jit,
              bool for_sizes = true,
              const std::optional<targets::DeviceProfile>& device = std::nullopt,
              std::string family = "")
      : target_(target),
        device_(device),
        jit_(std::move(jit)),
        for_sizes_(for_sizes),
        family_(std::move(family)) {}
  ~LateKernels();

  bool compiles_for_sizes() const { return for_sizes_; }
  ChosenKernels& chosen() { return chosen_; }
  TimeMemo& times() { return times_; }
  const targets::TargetInfo& target() const { return target_; }

  const PreparedSteps& split(const plan::Plan& plan, std::size_t step);
  const Prepared& copy(DType from, DType to, std::size_t rank);
  // As f32, each element times one of a second tensor.
  const Prepared& scaled_copy(DType from, std::size_t rank);
  // Of a grouped product whose rows are looked up: copies of rows by such an index, and the product
  // of rows that lie in order, under the number of its step; null where that is not one kernel.
  const Prepared& row_copy(DType dtype, DType index);
  InOrder* in_order(const plan::Plan& plan, std::size_t step);
  // Compiled for tensors of `sizes`; later tensors of other sizes choose among what is there.
  const StepKernels& variant(const Prepared& prepared, std::size_t step,
                             const codegen::GemmVariant& variant, const codegen::GemmSizes& sizes);
  // The first other family that takes the step on these tensors, with a and b in the roles that the
  // step's own family gives them, and its candidates in the variant that it asks for; nothing is
  // compiled. Its kernels, null without any.
  std::optional<StepKernels> find_another(const Prepared& prepared, std::size_t step,
                                          const codegen::Bound& bound,
                                          const codegen::OperandRoles& roles) const;
  const StepKernels* another(const Prepared& prepared, std::size_t step,
                             const codegen::Bound& bound, const codegen::OperandRoles& roles,
                             const codegen::GemmSizes& sizes);
  // The candidate of `kernels` (those of the step in some variant) with that name; null when there
  // is none, or it does not compile well.
  const Kernel* candidate(const Prepared& prepared, std::size_t step, const StepKernels& kernels,
                          const std::string& name);
  // Compiles these candidates at once, for calls of candidate() to come; with the tail of split().
  void compile(const Prepared& prepared, std::size_t step, const StepKernels& kernels,
               std::span<const codegen::GemmConfig> candidates, bool with_split = false);
  // The steps that may run side by side with the one of that number, which is their first; none
  // where no family has kernels for them.
  codegen::StepRange range_at(const Prepared& prepared, std::size_t step);
  // Whose kernels these are; null where range_at() is never any.
  const codegen::KernelFamily* family_side_by_side() const;
  // What one of them is expected to take alone: by its best config, or the vendor's product.
  double alone_us(const Prepared& prepared, std::size_t step, const codegen::GemmSizes& sizes,
                  const targets::DeviceProfile& device);
  // The kernel of that kind for such steps whose config has the least `us_of`, where that is below
  // `below_us`, or one that is compiled and about as good; compiled when it is asked for first.
  SideBySideKernel side_by_side(const Prepared& prepared, codegen::StepRange range,
                                const codegen::SideBySideKind& kind,
                                const std::function<double(const codegen::GemmConfig&)>& us_of,
                                double below_us);
  // Of the kernels for such steps the `most` of least finite `us_of`, which come first; those that
  // are not there are compiled, or with `compiles` false left out.
  std::vector<const Kernel*> side_by_side_candidates(
      const Prepared& prepared, codegen::StepRange range, const codegen::SideBySideKind& kind,
      const std::function<double(const codegen::GemmConfig&)>& us_of, std::size_t most,
      bool compiles);
  // Whether candidate() and split() compile nothing: their kernels are here, or in the cache.
  bool is_compiled(const Prepared& prepared, std::size_t step, const StepKernels& kernels,
                   const codegen::GemmConfig& config) const;
  bool is_copy_compiled(DType dtype, std::size_t rank);
  bool is_split_compiled(const plan::Plan& plan, std::size_t step);

 private:
  SideBySideKernels& side_by_side_of(const Prepared& prepared, codegen::StepRange range,
                                     const codegen::SideBySideKind& kind);
  void compile_side_by_side(const Prepared& prepared, codegen::StepRange range,
                            const codegen::SideBySideKind& kind,
                            const std::function<double(const codegen::GemmConfig&)>& us_of,
                            std::size_t most, SideBySideKernels& all);
  using Variants = std::vector<std::unique_ptr<const StepKernels>>;
  const StepKernels& variant_of(Variants& variants, const Prepared& prepared, std::size_t step,
                                const StepKernels& usual, const codegen::GemmVariant& variant,
                                const codegen::GemmSizes& sizes);
  codegen::KernelSource source(const Prepared& prepared, std::size_t step,
                               const StepKernels& kernels, const codegen::GemmConfig& config) const;
  std::optional<codegen::KernelSource> split_tail(const plan::Plan& plan, std::size_t step) const;
  const targets::TargetInfo& target_;
  const std::optional<targets::DeviceProfile> device_;
  std::shared_ptr<jit::Jit> jit_;
  const bool for_sizes_;
  const std::string family_;
  ChosenKernels chosen_;
  TimeMemo times_;
  std::mutex mutex_;
  std::map<std::size_t, PreparedSteps> splits_;
  std::unique_ptr<InOrder> in_order_;
  std::map<std::size_t, bool> is_one_in_order_;  // of the steps that were asked for
  std::map<std::pair<DType, DType>, Prepared> row_copies_;
  std::map<std::tuple<DType, DType, std::size_t>, Prepared> copies_;
  std::map<std::pair<DType, std::size_t>, Prepared> scaled_copies_;
  std::map<std::size_t, Variants> variants_, others_;  // of the step's family, of another one
  std::optional<std::vector<codegen::StepRange>> ranges_;
  std::map<std::pair<std::size_t, const codegen::SideBySideKind*>, SideBySideKernels>
      side_by_side_;  // by their first step
  std::map<std::pair<const StepKernels*, std::string>, std::vector<Kernel>>
      candidates_;  // one or none
};

// A plan whose products find their rows in order. Only steps that were asked for have kernels.
struct InOrder {
  Prepared prepared;
  LateKernels late;
};

}  // namespace epifuse::cuda
