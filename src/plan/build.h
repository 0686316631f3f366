// Writes a drafted step out: its epilogue, and the description of its matrix product.
#pragma once

#include "plan/plan.h"
#include "plan/steps.h"

namespace epifuse::plan {

Epilogue build_epilogue(const Facts& facts, const StepDraft& draft, Numerics numerics);

// Also decides whether batch dims fold into m; the loads of a folded epilogue are not batched.
FusedGemm build_gemm(const Facts& facts, const StepDraft& draft, Epilogue epilogue);

}  // namespace epifuse::plan
