// The strip loops compiled for AVX2 (flags: cmake/CpuKernels.cmake).
#define EPIFUSE_STRIPS avx2
#include "backends/cpu/strips_loops.inc"
