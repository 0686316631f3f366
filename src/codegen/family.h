// What a GEMM kernel family offers: the host half of a kernel template. A row of families.def.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/bound.h"
#include "codegen/config.h"
#include "codegen/gemm_sizes.h"
#include "codegen/launch.h"
#include "plan/plan.h"
#include "targets/device_profile.h"

namespace epifuse::codegen {

// What a kernel leaves of each reduction for a tail to combine: float32 values of parts of rows, or
// of columns.
struct Partials {
  ir::Layout layout;           // [batch.., parts, length], all of which the kernel may write
  std::int64_t num_parts = 0;  // the first of them that make up the result
  std::size_t bytes = 0;
};

// The operands of a step as kernels of a variant take them.
struct OperandRoles {
  bool are_exchanged = false;  // D^T = B^T * A^T is computed: m is n, a is b
  // Rows start off the boundaries that the device copies by; of a and b after the exchange.
  bool is_misaligned_a = false, is_misaligned_b = false;
  bool are_misaligned() const { return is_misaligned_a || is_misaligned_b; }
};

// Memory that one run of a kernel takes beside its tensors (Bound::scratch).
struct Scratch {
  std::size_t bytes = 0;
  std::size_t zeros = 0;  // so many bytes from its start on are to be zeros
};

struct PointerArrayFunctions;  // codegen/pointer_arrays.h
struct SideBySideFunctions;    // codegen/side_by_side.h

// A constant of a family's model of time, and whether a fit to few measurements may change it.
struct NamedConstant {
  std::string_view name;
  double value = 0;
  bool is_fitted = false;
};

// A kernel template and its host half. Made by a row of families.def and the family's folder.
struct KernelFamily {
  std::string_view name;     // in results and in measured choices
  std::string_view summary;  // one sentence for `explain` and docs
  // Whether the family can take the step on the target, judged by what is known at compile time.
  std::optional<plan::WhyNot> (*why_not)(const plan::Plan&, const plan::FusedGemm&,
                                         const targets::TargetInfo&);
  // Whether its kernels are the ones for the target where no family is named; null: wherever it can
  // take a step.
  bool (*suits)(const targets::TargetInfo&) = nullptr;
  // All configs worth compiling, best general choice first.
  std::vector<GemmConfig> (*configs)(const plan::FusedGemm&, const targets::TargetInfo&);
  // The time the family's model expects of a config, without launch, in microseconds. The model's
  // constants are the family's own, by device; a device without a row has generic ones.
  double (*expected_us)(const plan::FusedGemm&, const GemmConfig&, const GemmSizes&,
                        const targets::DeviceProfile&);
  // Those that the profile makes hold, for `epifuse calibrate`; null: there are none to fit.
  std::vector<NamedConstant> (*constants)(const targets::DeviceProfile&) = nullptr;
  KernelSource (*source)(const plan::Plan&, const plan::FusedGemm&, const GemmConfig&,
                         const GemmVariant&, const targets::TargetInfo&);
  // Whether the bound tensors can be addressed; the backend falls back if not.
  std::optional<plan::WhyNot> (*why_not_bound)(const plan::Plan&, const plan::FusedGemm&,
                                               const Bound&);
  // What becomes of one of `configs` in the variant, which may leave room for fewer stages; empty
  // where no kernel of it may be of the variant.
  std::optional<GemmConfig> (*fitted)(const plan::FusedGemm&, const GemmConfig&, const GemmVariant&,
                                      const targets::TargetInfo&);
  // The variant that these tensors need; only of tensors that why_not_bound lets pass.
  GemmVariant (*variant)(const plan::Plan&, const plan::FusedGemm&, const Bound&);
  OperandRoles (*roles)(const GemmVariant&);
  // Of a step that reduces: the same for each of its reductions.
  Partials (*partials)(const plan::FusedGemm&, const GemmConfig&, const GemmVariant&, const Sizes&,
                       const targets::DeviceLimits&);
  // Null: no kernel of the family takes any.
  Scratch (*scratch)(const plan::FusedGemm&, const GemmConfig&, const GemmVariant&, const Sizes&,
                     const targets::DeviceLimits&) = nullptr;
  // Here values that are reductions are bound to their partial results.
  Launch (*launch)(const plan::Plan&, const plan::FusedGemm&, const GemmConfig&, const GemmVariant&,
                   const Bound&, const targets::DeviceLimits&);
  // Arrays of problems in one launch; null where the family has no kernels for them.
  const PointerArrayFunctions* pointer_arrays = nullptr;
  // Steps of one A in one launch; null where the family has no kernels for them.
  const SideBySideFunctions* side_by_side = nullptr;
};
std::span<const KernelFamily> all_families();
// Throws ArgumentError for a name that no family has; empty is none.
void check_family(std::string_view name);
// Those to ask for a step, in order: the one of that name alone, where one is named. Throws
// ArgumentError for a name that none has.
std::vector<const KernelFamily*> families_for(const targets::TargetInfo& target,
                                              std::string_view name = "");

// The same for this step: of groups of rows, blocks with scales and i8, which no vendor multiplies
// here, also those that are not the target's usual ones, behind these, unless one is named.
std::vector<const KernelFamily*> families_for(const plan::FusedGemm& step,
                                              const targets::TargetInfo& target,
                                              std::string_view name = "");
// Whether it is a usual one of the target.
bool suits(const KernelFamily& family, const targets::TargetInfo& target);

// The configs as tensors of a variant ask for them; without those that cannot be of it.
std::vector<GemmConfig> fitted(const KernelFamily& family, const plan::FusedGemm& step,
                               std::span<const GemmConfig> configs, const GemmVariant& variant,
                               const targets::TargetInfo& target);

// The config of least expected time.
std::size_t choose(const KernelFamily& family, const plan::FusedGemm& step,
                   std::span<const GemmConfig> configs, const GemmSizes& sizes,
                   const targets::DeviceProfile& device);

}  // namespace epifuse::codegen
