// What the sources of GEMM kernels say alike, whichever family writes them.
#pragma once

#include <string>
#include <string_view>

#include "codegen/epilogue_layout.h"
#include "plan/plan.h"

namespace epifuse::codegen {

// The comment at the top, without slashes: operands and their layouts, numerics, config, variant
// ("" for the usual one) and epilogue.
std::string gemm_comment(const plan::Plan& plan, const plan::FusedGemm& step,
                         std::string_view config, std::string_view variant);

// "  static constexpr int kTileK = 32;  // of f32: 128 bytes", a line.
std::string constant_text(std::string_view constant, std::string_view value,
                          std::string_view meaning);

// Constants kIndexed.. for the lists whose rows go by an index; a list without any has none.
std::string indexed_text(const EpilogueLayout& layout);

}  // namespace epifuse::codegen
