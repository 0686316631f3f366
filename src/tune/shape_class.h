// Sizes of products that share a measured choice.
#pragma once

#include <string>

#include "codegen/gemm_sizes.h"

namespace epifuse::tune {

// The largest sizes of the class. Rows up to 64 share one up to each power of 2, up to 4096 up to
// each multiple of 64, beyond that of a 32nd of the power of 2 below: no tile has fewer rows, so
// that kernels of a class do about the same work. All other sizes are classes of their own.
codegen::GemmSizes shape_class(const codegen::GemmSizes& sizes);

// The same for sizes of one class.
std::string class_text(const codegen::GemmSizes& sizes);

// Of a whole graph's call: its products' sizes by class, and which kernels its tensors ask for,
// such as those for misaligned rows.
struct SizeClass {
  std::string sizes, variant;
};

}  // namespace epifuse::tune
