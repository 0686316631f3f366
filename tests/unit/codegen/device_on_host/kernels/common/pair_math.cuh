// Stands in for kernels/common/pair_math.cuh: of float32, which holds each sum and product here.
#pragma once

#include <cstdint>

#include "kernels/common/element.cuh"

namespace epifuse {

// `of` numbers of the same half of all words.
template <class Element, class Function, class... Words>
std::uint32_t of_pairs(const Function& of, Words... words) {
  const auto value = [](std::uint32_t word, int half) {
    return Element::load(static_cast<typename Element::Storage>(word >> half * 16 & 0xffff));
  };
  return pack<Element>(of(value(words, 0)...), of(value(words, 1)...));
}

inline std::uint32_t add_f16_pairs(std::uint32_t x, std::uint32_t y) {
  return of_pairs<F16>([](float a, float b) { return a + b; }, x, y);
}
inline std::uint32_t multiply_f16_pairs(std::uint32_t x, std::uint32_t y) {
  return of_pairs<F16>([](float a, float b) { return a * b; }, x, y);
}
inline std::uint32_t multiply_add_bf16_pairs(std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  return of_pairs<Bf16>([](float a, float b, float c) { return a * b + c; }, x, y, z);
}

}  // namespace epifuse
