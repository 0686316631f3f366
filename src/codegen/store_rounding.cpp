#include "codegen/store_rounding.h"

#include <algorithm>

namespace epifuse::codegen {
namespace {

using plan::Compute;
using plan::Epilogue;
using plan::Slot;
using plan::Store;

bool reads(const Compute& compute, Slot slot) {
  return std::ranges::find(compute.args, slot) != compute.args.end();
}

bool is_repeated(const Epilogue& epilogue, const Compute& cast, Slot slot) {
  if (cast.op != ir::Op::cast || cast.args[0] < epilogue.num_accumulators) return false;
  if (std::ranges::any_of(epilogue.computes, [&](const Compute& x) { return reads(x, slot); })) {
    return false;
  }
  return std::ranges::all_of(epilogue.stores, [&](const Store& store) {
    const bool is_plain = store.kind == plan::StoreKind::tile && store.part == plan::Part::whole;
    const bool is_source = store.source == slot || store.second == slot;
    return !is_source || (is_plain && store.dtype == cast.dtype);
  });
}

// Slots behind it move up by one, its own becomes that of its operand.
void remove(Epilogue& epilogue, std::size_t index, Slot slot) {
  const Slot operand = epilogue.computes[index].args[0];
  const auto moved = [&](Slot& each) {
    if (each == slot) {
      each = operand;
    } else if (each > slot) {
      --each;
    }
  };
  epilogue.computes.erase(epilogue.computes.begin() + static_cast<std::ptrdiff_t>(index));
  for (Compute& compute : epilogue.computes) std::ranges::for_each(compute.args, moved);
  for (Store& store : epilogue.stores) {
    moved(store.source);
    moved(store.second);
  }
}

}  // namespace

Epilogue without_repeated_casts(Epilogue epilogue, bool of_8_bits_alone) {
  for (std::size_t i = epilogue.computes.size(); i-- > 0;) {
    const Compute& compute = epilogue.computes[i];
    const Slot slot = epilogue.first_compute() + static_cast<Slot>(i);
    if (of_8_bits_alone && !is_fp8(compute.dtype)) continue;
    if (is_repeated(epilogue, compute, slot)) remove(epilogue, i, slot);
  }
  return epilogue;
}

}  // namespace epifuse::codegen
