// Stand-in for cutlass/numeric_types.h: the copy descriptors need only CuTe's number types.
#pragma once

#include <cute/numeric/numeric_types.hpp>
