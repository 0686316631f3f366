// Stand-in for cute/arch/copy_sm100_tma.hpp: cutlass/arch/barrier.h needs only what it includes.
#pragma once

#include <cute/arch/copy_sm90.hpp>
#include <cutlass/arch/synclog.hpp>
