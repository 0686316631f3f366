// Even and odd columns of a 16-bit result, which one thread has both of, as elements twice as wide:
// one store to staging and one tensor map instead of two stores element by element.
#include "codegen/sm90/dense.h"

namespace epifuse::codegen::sm90 {

using plan::FusedGemm;

constexpr std::size_t kPairable = 2;  // bytes of an element

FusedGemm paired(FusedGemm step, const Variant& variant) {
  if (variant.unpaired) return step;
  std::vector<plan::Store>& stores = step.epilogue.stores;
  for (std::size_t i = 0; i + 1 < stores.size(); ++i) {
    plan::Store& even = stores[i];
    const plan::Store& odd = stores[i + 1];
    const bool is_pair = even.part == plan::Part::even && odd.part == plan::Part::odd &&
                         even.value == odd.value && size_bytes(even.dtype) == kPairable;
    if (!is_pair) continue;
    even.part = plan::Part::pairs;
    even.second = odd.source;
    stores.erase(stores.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  return step;
}

bool can_pair(const FusedGemm& step, const Bound& bound) {
  for (const plan::Store& store : step.epilogue.stores) {
    if (store.part != plan::Part::even) continue;
    const BoundTensor& tensor = bound.tensors[static_cast<std::size_t>(store.value)];
    const ir::Layout& layout = tensor.layout;
    const auto is_even = [&](std::size_t d) {
      return layout.shape[d] == 1 || layout.strides[d] % 2 == 0;
    };
    bool steps_in_pairs = layout.strides.back() == 1 && layout.offset % 2 == 0;
    for (std::size_t d = 0; d + 1 < layout.shape.size(); ++d) {
      steps_in_pairs = steps_in_pairs && is_even(d);
    }
    const auto address = reinterpret_cast<std::uintptr_t>(tensor.data);
    if (!steps_in_pairs || address % sizeof(std::uint32_t) != 0) return false;
  }
  return true;
}

}  // namespace epifuse::codegen::sm90
