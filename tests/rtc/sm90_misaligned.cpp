#include "codegen/sm80/config.h"
#include "codegen/sm90/config.h"
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

}  // namespace epifuse::rtc
