// Casts that a store repeats.
#pragma once

#include "plan/plan.h"

namespace epifuse::codegen {

// The epilogue without its casts to what is stored of them and nothing else reads: a store rounds
// anyway. Casts of a product's sums stay (kernels/common/element.cuh says why). Of epilogues
// whose kernels were made before this, only casts to 8 bits go.
plan::Epilogue without_repeated_casts(plan::Epilogue epilogue, bool of_8_bits_alone);

}  // namespace epifuse::codegen
