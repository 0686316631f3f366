// Which sizes share a measured choice.
#pragma once

#include "backends/cuda/prepare/prepare.h"
#include "tune/shape_class.h"

namespace epifuse::cuda {

// As Executable::size_class; compiles nothing.
tune::SizeClass size_class(const Prepared& prepared, const codegen::Bound& bound);

}  // namespace epifuse::cuda
