// Stand-in for cute/numeric/real.hpp: cute/arch/mma.hpp needs only the number types.
#pragma once

#include <cute/numeric/numeric_types.hpp>
