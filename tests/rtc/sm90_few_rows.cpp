#include "codegen/sm90/config.h"
#include "corpus_kernels.h"

namespace epifuse::rtc {

bool is_for_few_rows(const codegen::KernelFamily& family, const codegen::GemmConfig& config) {
  return family.name == "sm90_dense" &&
         codegen::sm90::is_for_few_rows(config.as<codegen::sm90::Config>());
}

}  // namespace epifuse::rtc
