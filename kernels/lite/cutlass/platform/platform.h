// Stand-in for cutlass/platform/platform.h: cutlass/arch/config.h uses nothing of it.
#pragma once
