#include "codegen/sm90/config.h"
#include "corpus_kernels.h"

namespace epifuse::rtc {

codegen::GemmVariant misaligned(const codegen::KernelFamily& family, bool a, bool b) {
  if (family.name != "sm90_dense") return {};
  return codegen::make_variant(codegen::sm90::Variant{.misaligned_a = a, .misaligned_b = b});
}

}  // namespace epifuse::rtc
