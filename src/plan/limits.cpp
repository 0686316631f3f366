// How much one step may do: what the kernels' parameter blocks have room for.
#include "plan/limits.h"

#include "plan/access.h"
#include "plan/reasons.h"

namespace epifuse::plan {
namespace {

struct Limit {
  Access access;
  int most;
  Reason reason;
};

constexpr Limit kGemmLimits[] = {
    {Access::tile, abi::kMaxTiles, Reason::too_many_tiles},
    {Access::row, abi::kMaxVectors, Reason::too_many_rows},
    {Access::col, abi::kMaxVectors, Reason::too_many_cols},
    {Access::scalar, abi::kMaxScalars, Reason::too_many_scalars},
};

}  // namespace

void LoadSet::add(ir::ValueId value) {
  Entry& entry = entries_[value];
  if (entry.num_readers++ == 0) entry.access = access(value);
}

void LoadSet::remove(ir::ValueId value) {
  const auto entry = entries_.find(value);
  if (entry != entries_.end() && --entry->second.num_readers == 0) entries_.erase(entry);
}

void LoadSet::remove_all(ir::ValueId value) { entries_.erase(value); }

Access LoadSet::access(ir::ValueId value) const { return make_load(*graph_, value, space_).access; }

int LoadSet::count(Access access) const {
  int result = 0;
  for (const auto& [value, entry] : entries_) result += entry.access == access ? 1 : 0;
  return result;
}

std::optional<Reason> LoadSet::exceeded() const {
  const int parameters = count(Access::parameter);
  if (parameters > abi::kMaxScalars) return Reason::too_many_parameters;
  // A fused kernel must also fit as a tail, which loads the product too (see split).
  const int most = abi::kMaxTailLoads - (is_gemm_ ? 1 : 0);
  if (static_cast<int>(entries_.size()) - parameters > most) return Reason::too_many_loads;
  if (!is_gemm_) return std::nullopt;
  for (const Limit& limit : kGemmLimits) {
    if (count(limit.access) > limit.most) return limit.reason;
  }
  return std::nullopt;
}

}  // namespace epifuse::plan
