// The strip loops compiled for AVX-512 (flags: cmake/CpuKernels.cmake).
#define EPIFUSE_STRIPS avx512
#include "backends/cpu/strips_loops.inc"
