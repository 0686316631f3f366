// Host half of kernels/sm90/few_rows.cuh: configs with `warps`. See KernelFamily for what each
// function promises.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "codegen/family.h"
#include "codegen/sm90/config.h"

namespace epifuse::codegen::sm90 {

constexpr int kElementBytes = 2;  // of bf16 and f16, all that they multiply; b may be widened
constexpr std::int64_t kMostFewRows = 16;  // of products that go together in one launch
// Rows of products that are taken alone: of few columns these were ahead at up to 128. Where b is
// widened, for each tile of rows anew, at up to 16.
constexpr std::int64_t kMostRowsTaken = 512, kMostRowsWidened = 16;
// Rows from which on tiles of 64 take less time than another family's of 32, where b is widened.
constexpr std::int64_t kFewestRowsOfTiles = 33;
inline std::int64_t most_rows_taken(const plan::GemmDesc& gemm) {
  return gemm.widens_b() ? kMostRowsWidened : kMostRowsTaken;
}

// Why no kernel for few rows takes a step that the family takes.
std::optional<plan::WhyNot> why_not_few_rows(const plan::FusedGemm& step);
// Of a step whose b is widened: what keeps the family from it beside the epilogue.
std::optional<plan::WhyNot> why_not_widened(const plan::Plan& plan, const plan::FusedGemm& step);
std::vector<Config> few_rows_configs(const plan::FusedGemm& step);
double few_rows_us(const plan::FusedGemm& step, const Config& config, const GemmSizes& sizes,
                   const targets::DeviceProfile& device);
KernelSource few_rows_source(const plan::Plan& plan, const plan::FusedGemm& step,
                             const Config& config, const targets::TargetInfo& target);
std::optional<Config> few_rows_fitted(const plan::FusedGemm& step, const Config& config,
                                      const Variant& variant);
// Several steps with this epilogue, of one k, in one launch: `parts` are those of each alone.
KernelSource few_rows_side_by_side_source(const plan::Plan& plan, const plan::FusedGemm& step,
                                          const Config& config, const targets::TargetInfo& target);
Launch few_rows_side_by_side_launch(std::span<const Launch> parts);
Launch few_rows_launch(const plan::Plan& plan, const plan::FusedGemm& step, const Config& config,
                       const Bound& bound);

}  // namespace epifuse::codegen::sm90
