// Tensors in files: NumPy's .npy, or raw bytes.
#pragma once

#include <cstddef>
#include <string>

#include "epifuse/tensor.h"

namespace epifuse::cli {

// Fills a tensor from a file. A .npy has its shape, elements in row-major order whatever the
// tensor's strides are, and a dtype that converts by value: f2, f4, f8 or b1 for floats and bool,
// i4 or i8 for indices that can hold the values, i1 for i8; u2 is the bits of bf16, u1 those of
// fp8, for these alone. Elements that strides make one must be alike. A file of any other name is
// the memory itself, exactly `memory_bytes` raw bytes. Throws ArgumentError: what was expected,
// what came.
void read_tensor(const std::string& path, const std::string& input, const TensorView& view,
                 std::size_t memory_bytes);

// What the text says if it is a number; else a float32 from a .npy of shape () or from 4 raw bytes,
// of the file that it names. Throws as read_tensor does.
double read_scalar(const std::string& text, const std::string& input);

// Writes a host tensor as .npy (bf16 and fp8 as f4), whole or not at all. Throws ArgumentError.
void write_npy(const std::string& path, const TensorView& view);

}  // namespace epifuse::cli
