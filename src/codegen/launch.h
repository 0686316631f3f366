// What is compiled, and what is launched: plain structs. No device is needed to fill them in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "epifuse/dtype.h"

namespace epifuse::codegen {

// What NVRTC is given. `entry` is the extern "C" name.
struct KernelSource {
  std::string entry;
  std::string text;
  std::string arch;  // the name of a CUDA target
  bool operator==(const KernelSource&) const = default;
};

// A tensor map to encode into the parameter block: row-major matrices seen through boxes.
struct TensorMapRequest {
  std::size_t offset = 0;  // into Launch::params
  const void* data = nullptr;
  DType dtype = DType::bf16;
  std::int64_t rows = 0, cols = 0, row_stride = 0;  // in elements
  int box_rows = 0, box_cols = 0;
  bool swizzled = true;  // by 128 bytes, the most that box_cols may take; else rows lie one by one
  bool rounds_to_tf32 = false;  // float32 on its way to the tensor cores
  bool batched = false;         // the map has two dims more:
  std::int64_t inner = 1, outer = 1, inner_stride = 0, outer_stride = 0;
};

struct Launch {
  std::vector<unsigned char> params;  // the POD block of kernels/abi.h; maps are filled in later
  std::vector<TensorMapRequest> maps;
  unsigned grid = 1, block = 1, cluster = 1, smem_bytes = 0;
  bool overlaps_previous = false;  // waits for the kernel before it itself (programmatic launch)
};

// The block of a kernel's parameters, `bytes` of it.
void set_params(Launch& launch, const void* block, std::size_t bytes);

}  // namespace epifuse::codegen
