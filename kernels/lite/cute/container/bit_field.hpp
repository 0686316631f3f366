// Stand-in for cute/container/bit_field.hpp: all that is needed of it is in numeric_types.hpp.
#pragma once

#include <cute/numeric/numeric_types.hpp>
