#include "partition/fusion_alone.h"

namespace epifuse {
namespace {

// Of groups of rows: with longer sums the framework's own product is as fast, or faster.
bool is_short(const Dim& k) { return k.constant() && *k.constant() <= 1024; }

// Where PyTorch's own product, by cuBLASLt, was at no size measured more than 3 % ahead; in between
// it was at some (docs/gotchas-hopper.md).
bool multiplies_blocks_faster(const plan::GemmDesc& gemm,
                              const std::optional<codegen::GemmSizes>& likely) {
  constexpr std::int64_t kFewRows = 256, kManyRows = 2048, kManyColumns = 7168;
  if (gemm.a_scales.are_shared || !gemm.b_scales.are_shared) return false;
  return likely && (likely->m <= kFewRows || likely->m >= kManyRows || likely->n >= kManyColumns);
}

}  // namespace

bool pays_alone(const plan::GemmDesc& gemm, const std::optional<codegen::GemmSizes>& likely,
                const targets::TargetInfo& target) {
  if (gemm.widens_b()) return target.kind == DeviceKind::cuda;
  if (!target.has_wgmma) return false;
  if (gemm.is_scaled()) return !gemm.has_groups() && multiplies_blocks_faster(gemm, likely);
  const bool is_16_bit = size_bytes(gemm.a.dtype) == 2 && size_bytes(gemm.b.dtype) == 2;
  if (!is_16_bit) return false;
  // At all sizes measured (docs/gotchas-groups.md).
  if (gemm.is_grouped()) return is_short(gemm.k) && gemm.a.major == plan::Major::k;
  const bool are_rows_of_k = gemm.a.major == plan::Major::mn && gemm.b.major == plan::Major::mn;
  return gemm.is_k_grouped() && are_rows_of_k;
}

}  // namespace epifuse
