// The strip loops compiled for any processor of the architecture (flags: cmake/CpuKernels.cmake).
#define EPIFUSE_STRIPS baseline
#include "backends/cpu/strips_loops.inc"
