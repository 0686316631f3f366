// Tensors in files: NumPy's .npy, or raw bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "epifuse/tensor.h"

namespace epifuse::cli {

// Fills `flat` (one dim, all elements in row-major order) from a file. A .npy must have `shape` and
// a dtype that converts: f2, f4, f8, b1, or u2 holding bf16 bits. Any other name is raw bytes of
// exactly the tensor's size. Throws ArgumentError: what was expected, what came.
void read_tensor(const std::string& path, const std::string& input,
                 const std::vector<std::int64_t>& shape, const TensorView& flat);

// Writes a host tensor as .npy (bf16 and fp8 as f4). Throws ArgumentError when it cannot.
void write_npy(const std::string& path, const TensorView& view);

}  // namespace epifuse::cli
