// Which configs of a family are worth compiling before any tensor is seen.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "codegen/family.h"

namespace epifuse::tune {

// The sizes of a product once symbols have values.
codegen::GemmSizes gemm_sizes(const plan::GemmDesc& gemm, const Sizes& sizes);
// With the rows of the operands as they are bound.
codegen::GemmSizes gemm_sizes(const plan::GemmDesc& gemm, const codegen::Bound& bound);

// Sizes that stand for those a product will meet: what is fixed is taken as it is, rows that are
// not known take a few values from a decode step to a full card.
std::vector<codegen::GemmSizes> typical_sizes(const plan::GemmDesc& gemm);

// At most `most` of `configs` (indices, ascending): those that the family's model chooses for some
// of `sizes`. If more are chosen, those that together lose least against each size's own choice.
std::vector<std::size_t> shortlist(const codegen::KernelFamily& family, const plan::FusedGemm& step,
                                   std::span<const codegen::GemmConfig> configs,
                                   std::span<const codegen::GemmSizes> sizes,
                                   const targets::DeviceProfile& device, std::size_t most);

}  // namespace epifuse::tune
