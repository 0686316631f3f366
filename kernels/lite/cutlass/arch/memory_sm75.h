// Stand-in for cutlass/arch/memory_sm75.h: cutlass/arch/barrier.h needs only the number types.
#pragma once

#include <cute/numeric/numeric_types.hpp>
