#include <algorithm>

#include "codegen/sm80/config.h"
#include "codegen/sm90/dense.h"
#include "corpus_kernels.h"

namespace epifuse::rtc {

codegen::GemmVariant misaligned(const codegen::KernelFamily& family, bool a, bool b) {
  constexpr int kUsual = 16, kFewest = 2;  // bytes
  if (family.name == "sm90_dense") {
    return codegen::make_variant(codegen::sm90::Variant{.misaligned_a = a, .misaligned_b = b});
  }
  codegen::sm80::Variant variant;
  variant.alignment_a = a ? kFewest : kUsual;
  variant.alignment_b = b ? kFewest : kUsual;
  return codegen::make_variant(variant);
}

codegen::GemmVariant full_off_boundaries(const codegen::KernelFamily& family,
                                         const plan::FusedGemm& step, int at_once,
                                         bool with_operands) {
  using codegen::Place, codegen::Staging, codegen::List;
  constexpr int kMostBytes = 8;
  if (family.name != "sm90_dense") return {};
  codegen::sm90::Variant variant{.misaligned_a = with_operands, .misaligned_b = with_operands};
  const codegen::EpilogueLayout layout(codegen::sm90::as_compiled(step, variant).epilogue);
  variant.whole_sectors = true;
  for (const Place& place : layout.loads()) {
    if (place.staging == Staging::chunks) variant.non_tma_loads |= 1u << place.index;
  }
  variant.row_loads = variant.non_tma_loads;
  if (at_once > 1) variant.paired_loads = variant.row_loads;
  for (const Place& place : layout.stores()) {
    if (place.staging != Staging::chunks) continue;
    variant.non_tma_stores |= 1u << place.index;
    at_once = std::min(at_once, kMostBytes / place.bytes);
  }
  if (variant.non_tma_stores == 0) return {};
  variant.copied_stores = variant.non_tma_stores;
  variant.copied_at_once = at_once;
  return codegen::make_variant(variant);
}

}  // namespace epifuse::rtc
