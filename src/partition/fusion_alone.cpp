#include "partition/fusion_alone.h"

namespace epifuse {
namespace {

// Of groups of rows: with longer sums the framework's own product is as fast, or faster.
bool is_short(const Dim& k) { return k.constant() && *k.constant() <= 1024; }

// PyTorch's own, by cuBLASLt, takes 1.05 to 1.1 times as long (docs/gotchas-hopper.md).
bool has_many_rows(const std::optional<codegen::GemmSizes>& likely) {
  constexpr std::int64_t kFewest = 1024;
  return likely && likely->m >= kFewest;
}

}  // namespace

bool pays_alone(const plan::GemmDesc& gemm, const std::optional<codegen::GemmSizes>& likely,
                const targets::TargetInfo& target) {
  if (!target.has_wgmma) return false;
  if (gemm.is_scaled()) return !gemm.has_groups() && has_many_rows(likely);
  const bool is_16_bit = size_bytes(gemm.a.dtype) == 2 && size_bytes(gemm.b.dtype) == 2;
  if (!is_16_bit) return false;
  // At all sizes measured (docs/gotchas-groups.md).
  if (gemm.is_grouped()) return is_short(gemm.k) && gemm.a.major == plan::Major::k;
  const bool are_rows_of_k = gemm.a.major == plan::Major::mn && gemm.b.major == plan::Major::mn;
  return gemm.is_k_grouped() && are_rows_of_k;
}

}  // namespace epifuse
