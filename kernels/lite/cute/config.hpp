// Stand-in for cute/config.hpp: the macros of CuTe's instruction headers, for device code only.
#pragma once

#include <cuda/std/cstdint>

#define CUTE_HOST_DEVICE __forceinline__ __device__
#define CUTE_DEVICE __forceinline__ __device__
#define CUTE_HOST_RTC __forceinline__ __device__
#define CUTE_UNROLL _Pragma("unroll")
#define CUTE_NO_UNROLL _Pragma("unroll 1")
#define CUTE_INLINE_CONSTANT static const __device__
#define CUTE_STATIC_ASSERT static_assert
#define CUTE_INVALID_CONTROL_PATH(message) __trap()
#define CUTE_GCC_UNREACHABLE
