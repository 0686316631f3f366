// How much of the parameter block in kernels/abi.h a kernel of the Hopper GEMM takes.
#include <algorithm>
#include <array>
#include <cstddef>

#include "codegen/sm90_dense.h"
#include "kernels/abi.h"

namespace epifuse::codegen::sm90_dense {
namespace {

using plan::Access;

// How many entries of each of the block's arrays are used, the last of them wherever it is.
struct Uses {
  std::size_t rows = 0, cols = 0, scalars = 0, partials = 0;
  std::size_t loads = 0, stores = 0;  // full-size ones
};

Uses uses_of(const plan::Epilogue& epilogue, const GemmVariant& variant) {
  Uses uses;
  for (const plan::Load& load : epilogue.loads) {
    switch (load.access) {
      case Access::parameter: break;  // before all arrays
      case Access::scalar: ++uses.scalars; break;
      case Access::row: ++uses.rows; break;
      case Access::col: ++uses.cols; break;
      case Access::tile: ++uses.loads; break;
    }
  }
  for (const plan::Store& store : epilogue.stores) {
    ++(store.kind == plan::StoreKind::tile ? uses.stores : uses.partials);
  }
  if (variant.swapped) std::swap(uses.rows, uses.cols);
  return uses;
}

// Behind the last of `count` entries of an array, 0 without any.
std::size_t end_of(std::size_t array_at, std::size_t count, std::size_t entry_bytes) {
  return count == 0 ? 0 : array_at + count * entry_bytes;
}

// Behind the map at `map_at` of the last of `count` full-size operands.
std::size_t end_of_maps(std::size_t count, std::size_t map_at) {
  if (count == 0) return 0;
  return maps_at(count - 1) + map_at + sizeof(abi::TensorMap);
}

}  // namespace

std::size_t maps_at(std::size_t i) {
  return offsetof(abi::GemmParams, full) + i * sizeof(abi::FullSizeMaps);
}

std::size_t params_bytes(const plan::Epilogue& epilogue, const GemmConfig& config,
                         const GemmVariant& variant) {
  using abi::FullSizeMaps;
  using abi::GemmParams;
  if (variant.is_shifted()) return sizeof(abi::ShiftedGemmParams);
  const Uses uses = uses_of(epilogue, variant);
  const bool cuts = cut_columns(config) != 0;
  const std::array ends{
      offsetof(GemmParams, rows),
      end_of(offsetof(GemmParams, rows), uses.rows, sizeof(abi::Vector)),
      end_of(offsetof(GemmParams, cols), uses.cols, sizeof(abi::Vector)),
      end_of(offsetof(GemmParams, b_narrow), config.two_widths, sizeof(abi::TensorMap)),
      end_of_maps(uses.loads, offsetof(FullSizeMaps, load)),
      end_of_maps(uses.stores,
                  cuts ? offsetof(FullSizeMaps, cut_store) : offsetof(FullSizeMaps, store)),
      end_of(offsetof(GemmParams, scalars), uses.scalars, sizeof(abi::Vector)),
      end_of(offsetof(GemmParams, partials), uses.partials, sizeof(abi::Partials)),
      end_of(offsetof(GemmParams, plain_tiles), variant.plain_loads != 0 ? uses.loads : 0,
             sizeof(abi::Matrix)),
      end_of(offsetof(GemmParams, plain_stores), variant.plain_stores != 0 ? uses.stores : 0,
             sizeof(abi::Matrix)),
  };
  constexpr std::size_t kAlignment = alignof(GemmParams);
  return (*std::max_element(ends.begin(), ends.end()) + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace epifuse::codegen::sm90_dense
