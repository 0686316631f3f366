#include "codegen/epilogue_blocks.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace epifuse::codegen {
namespace {

using plan::Compute;
using plan::Epilogue;
using plan::Slot;

std::size_t index(Slot slot) { return static_cast<std::size_t>(slot); }

Slot slot_of(const Epilogue& epilogue, std::size_t compute) {
  return epilogue.first_compute() + static_cast<Slot>(compute);
}

// By slot: whether it is computed from one that `is_source`.
std::vector<bool> dependents(const Epilogue& epilogue, const std::function<bool(Slot)>& is_source) {
  std::vector<bool> depends(index(epilogue.num_slots()));
  for (Slot slot = 0; slot < epilogue.num_slots(); ++slot) {
    depends[index(slot)] = is_source(slot);
    if (slot < epilogue.first_compute()) continue;
    for (Slot arg : epilogue.computes[index(slot - epilogue.first_compute())].args) {
      if (arg >= 0 && depends[index(arg)]) depends[index(slot)] = true;
    }
  }
  return depends;
}

bool is_maximum(const Epilogue& epilogue, Slot slot) {
  return slot >= epilogue.first_compute() &&
         epilogue.computes[index(slot - epilogue.first_compute())].op == ir::Op::block_max;
}

}  // namespace

std::vector<const Compute*> block_maxima(const Epilogue& epilogue) {
  std::vector<const Compute*> found;
  for (const Compute& compute : epilogue.computes) {
    if (compute.op == ir::Op::block_max) found.push_back(&compute);
  }
  return found;
}

std::vector<Slot> carried_slots(const Epilogue& epilogue) {
  if (block_maxima(epilogue).empty()) return {};
  const std::vector<bool> behind =
      dependents(epilogue, [&](Slot slot) { return is_maximum(epilogue, slot); });
  const std::vector<bool> of_sums =
      dependents(epilogue, [&](Slot slot) { return slot < epilogue.num_accumulators; });
  std::vector<Slot> found;
  const auto read = [&](Slot slot) {
    if (slot < 0 || !of_sums[index(slot)] || behind[index(slot)]) return;
    if (std::ranges::find(found, slot) == found.end()) found.push_back(slot);
  };
  for (std::size_t i = 0; i < epilogue.computes.size(); ++i) {
    const Slot slot = slot_of(epilogue, i);
    if (!behind[index(slot)] || is_maximum(epilogue, slot)) continue;
    std::ranges::for_each(epilogue.computes[i].args, read);
  }
  for (const plan::Store& store : epilogue.stores) {
    read(store.source);
    read(store.second);
  }
  if (std::ssize(found) <= epilogue.num_accumulators) return found;
  std::vector<Slot> accumulators(index(epilogue.num_accumulators));
  std::iota(accumulators.begin(), accumulators.end(), 0);
  return accumulators;
}

std::vector<bool> slots_of_pass(const Epilogue& epilogue, BlockPass pass) {
  const bool has_maxima = !block_maxima(epilogue).empty();
  std::vector<bool> needed(index(epilogue.num_slots()), !has_maxima);
  if (!has_maxima) return needed;
  const std::vector<Slot> carried = carried_slots(epilogue);
  const auto need = [&](Slot slot) {
    if (slot >= 0) needed[index(slot)] = true;
  };
  const bool is_before = pass == BlockPass::before_maxima;
  if (is_before) {
    for (const Compute* maximum : block_maxima(epilogue)) need(maximum->args[0]);
    std::ranges::for_each(carried, need);
  } else {
    for (const plan::Store& store : epilogue.stores) {
      need(store.source);
      need(store.second);
    }
  }
  for (std::size_t i = epilogue.computes.size(); i-- > 0;) {
    const Slot slot = slot_of(epilogue, i);
    const bool is_known = !is_before && (is_maximum(epilogue, slot) ||
                                         std::ranges::find(carried, slot) != carried.end());
    if (needed[index(slot)] && !is_known) std::ranges::for_each(epilogue.computes[i].args, need);
  }
  return needed;
}

}  // namespace epifuse::codegen
