// Stand-in for cute/container/alignment.hpp: all that is needed of it is in numeric_types.hpp.
#pragma once

#include <cute/numeric/numeric_types.hpp>
