// Host half of kernels/sm90_dense.cuh; see KernelFamily for what each function promises.
#pragma once

#include "codegen/kernel.h"

namespace epifuse::codegen::sm90_dense {

std::optional<plan::WhyNot> why_not(const plan::Plan& plan, const plan::FusedGemm& step,
                                    const TargetInfo& target);
std::vector<GemmConfig> configs(const plan::FusedGemm& step, const TargetInfo& target);
double expected_us(const plan::FusedGemm& step, const GemmConfig& config, const GemmSizes& sizes,
                   const DeviceLimits& limits);
KernelSource source(const plan::Plan& plan, const plan::FusedGemm& step, const GemmConfig& config,
                    const GemmVariant& variant, const TargetInfo& target);
std::optional<plan::WhyNot> why_not_bound(const plan::Plan& plan, const plan::FusedGemm& step,
                                          const Bound& bound);
GemmVariant variant(const plan::Plan& plan, const plan::FusedGemm& step, const Bound& bound);
Launch launch(const plan::Plan& plan, const plan::FusedGemm& step, const GemmConfig& config,
              const GemmVariant& variant, const Bound& bound, const DeviceLimits& limits);

// Bytes of one stage of operands and its barriers.
int stage_bytes(const GemmConfig& config);
// Bytes of shared memory of one CTA: the sum that SharedLayout in the kernel must equal.
int smem_bytes(const plan::Epilogue& epilogue, const GemmConfig& config);

}  // namespace epifuse::codegen::sm90_dense
