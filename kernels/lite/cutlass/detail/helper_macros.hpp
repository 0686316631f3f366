// Stand-in for cutlass/detail/helper_macros.hpp: CUTLASS's macros, for device code only.
#pragma once

#define CUDA_STD_HEADER(name) <cuda/std/name>
#define CUTLASS_HOST_DEVICE __forceinline__ __device__
#define CUTLASS_DEVICE __forceinline__ __device__
#define CUTLASS_PRAGMA_UNROLL _Pragma("unroll")
#define CUTLASS_PRAGMA_NO_UNROLL _Pragma("unroll 1")
#define CUTLASS_UNUSED(expression) ((void)(expression))
#define CUTLASS_ASSERT(condition)
#define CUTLASS_NOT_IMPLEMENTED() __trap()
// No family-wide code path: kernels are compiled for one exact architecture.
#define CUDA_ARCH_FAMILY(arch) 0
#define CUDA_ARCH_CONDITIONAL_OR_FAMILY(arch) 0
#define CUDA_ARCH_CONDITIONAL(arch) 0
