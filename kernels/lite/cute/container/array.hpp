// Stand-in for cute/container/array.hpp: all that is needed of it is in numeric_types.hpp.
#pragma once

#include <cute/numeric/numeric_types.hpp>
