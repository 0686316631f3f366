// Steps that may run side by side in one launch: products of one A, each with a B of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "codegen/family.h"
#include "codegen/launch.h"
#include "plan/plan.h"
#include "targets/targets.h"

namespace epifuse::codegen {

// Neighbours in a plan.
struct StepRange {
  std::size_t first = 0, count = 0;
};

// Whether products of one plan have one A, with the same scales, and a B of the same kind each.
bool multiply_alike(const plan::GemmDesc& x, const plan::GemmDesc& y);
// All ranges of two to `most` steps that multiply one A, have one epilogue, and of which none reads
// what another stores or may be bound to write.
std::vector<StepRange> side_by_side(const plan::Plan& plan, std::size_t most);

// Kernels that take such steps.
struct SideBySideKind {
  std::int64_t most_rows = 0;  // of the steps
  // Those of the family's configs that have such kernels; none where no step like this has.
  std::vector<GemmConfig> (*configs)(const plan::FusedGemm&, const targets::TargetInfo&);
  // Of all `parts`, as KernelFamily has it of one. The step is the first of them.
  double (*expected_us)(const plan::FusedGemm&, const GemmConfig&, std::span<const GemmSizes> parts,
                        const targets::DeviceProfile&);
  // The kernel for several steps like this one.
  KernelSource (*source)(const plan::Plan&, const plan::FusedGemm&, const GemmConfig&,
                         const targets::TargetInfo&);
  // `parts`: the family's launches of that config, of each step alone.
  Launch (*launch)(std::span<const Launch> parts, const GemmConfig&, const targets::DeviceLimits&);
};

// What a family does of such steps.
struct SideBySideFunctions {
  std::size_t most = 0;                   // steps of a launch
  std::span<const SideBySideKind> kinds;  // those for fewer rows first; the last one for any
};

// The first of the target's families, or of that name, that has such functions; null without one.
const KernelFamily* family_side_by_side(const targets::TargetInfo& target, std::string_view name);
// The kind for steps like this one of so many rows; null where they run alone.
const SideBySideKind* kind_side_by_side(const KernelFamily& family, const plan::FusedGemm& step,
                                        const targets::TargetInfo& target, std::int64_t rows);
// The ranges whose steps this family takes in one launch, of so many rows where that is known.
std::vector<StepRange> side_by_side(const plan::Plan& plan, const KernelFamily& family,
                                    const targets::TargetInfo& target,
                                    std::optional<std::int64_t> rows = std::nullopt);

}  // namespace epifuse::codegen
