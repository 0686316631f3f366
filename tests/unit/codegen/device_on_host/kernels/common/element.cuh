// Element types for device code that runs on the host: kernels/common/element.cuh without PTX.
#pragma once

#include "base/float_types.h"

namespace epifuse {

template <class StorageType, DType kDType>
struct HostElement {
  using Storage = StorageType;
  static float load(Storage x) { return static_cast<float>(load_element(&x, kDType, 0)); }
  static Storage store(float x) {
    Storage y;
    store_element(&y, kDType, 0, x);
    return y;
  }
};

using F32 = HostElement<float, DType::f32>;
using Bf16 = HostElement<std::uint16_t, DType::bf16>;
using F16 = HostElement<std::uint16_t, DType::f16>;
using E4m3 = HostElement<std::uint8_t, DType::e4m3>;
using E5m2 = HostElement<std::uint8_t, DType::e5m2>;
using I8 = HostElement<std::uint8_t, DType::i8>;
using Bool = HostElement<std::uint8_t, DType::boolean>;

template <class Element>
std::uint32_t pack(float low, float high) {
  return Element::store(low) | static_cast<std::uint32_t>(Element::store(high)) << 16;
}

template <class Element>
std::uint32_t pack_bytes(float low, float high) {
  return Element::store(low) | static_cast<std::uint32_t>(Element::store(high)) << 8;
}

}  // namespace epifuse
