#include "codegen/launch.h"

namespace epifuse::codegen {

void set_params(Launch& launch, const void* block, std::size_t bytes) {
  const auto* first = static_cast<const unsigned char*>(block);
  launch.params.assign(first, first + bytes);
}

}  // namespace epifuse::codegen
