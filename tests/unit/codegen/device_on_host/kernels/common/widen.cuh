// Stands in for kernels/common/widen.cuh: pairs of elements by their values.
#pragma once

#include <cstdint>

#include "kernels/common/element.cuh"

namespace epifuse {

template <class To, class From, int kHalf>
struct Widened {
  static std::uint32_t of(std::uint32_t word) {
    const auto value = [word](int byte) {
      return From::load(static_cast<typename From::Storage>(word >> byte * 8 & 0xff));
    };
    return pack<To>(value(kHalf * 2), value(kHalf * 2 + 1));
  }
};

}  // namespace epifuse
