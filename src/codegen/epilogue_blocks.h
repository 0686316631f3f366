// Epilogues that take maxima over blocks of columns: what is computed before the maxima are known,
// and what of it results are made of.
#pragma once

#include <vector>

#include "plan/epilogue.h"

namespace epifuse::codegen {

// The computes that are maxima of blocks, in order.
std::vector<const plan::Compute*> block_maxima(const plan::Epilogue& epilogue);

// Of what depends on the accumulators and on no maximum: the values that stores, and computes that
// depend on a maximum, read. A kernel keeps them in place of the accumulators. Where they are more
// than these, it keeps the accumulators, and computes them once more.
std::vector<plan::Slot> carried_slots(const plan::Epilogue& epilogue);

// By slot: what the arguments of maxima are computed from, and the carried slots; or what stores
// are computed from, beside carried slots and maxima. All slots where there is no maximum.
enum class BlockPass : std::uint8_t { before_maxima, behind_maxima };
std::vector<bool> slots_of_pass(const plan::Epilogue& epilogue, BlockPass pass);

}  // namespace epifuse::codegen
