// How much of the parameter block in kernels/abi.h a kernel of the Hopper GEMM takes.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

#include "codegen/epilogue_cuda.h"
#include "codegen/sm90/dense.h"
#include "kernels/abi.h"

namespace epifuse::codegen::sm90 {
namespace {

using plan::Access;

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

std::size_t params_bytes(const plan::Epilogue& epilogue, const Config& config,
                         const Variant& variant) {
  using abi::FullSizeMaps;
  using abi::GemmParams;
  if (variant.is_shifted()) return sizeof(abi::ShiftedGemmParams);
  if (config.problems) return sizeof(GemmParams);  // each problem has one
  const auto num = [&](Access access) { return loads_of(epilogue, access).size(); };
  const std::size_t num_rows = num(variant.swapped ? Access::col : Access::row);
  const std::size_t num_cols = num(variant.swapped ? Access::row : Access::col);
  const auto num_partials = static_cast<std::size_t>(pressure(epilogue).reductions);
  const std::size_t num_loads = num(Access::tile),
                    num_stores = epilogue.stores.size() - num_partials;
  const bool cuts = cut_columns(config) != 0;
  const IndexedRows indexed = indexed_rows(epilogue);
  const auto reaches = [](unsigned bits) { return static_cast<std::size_t>(std::bit_width(bits)); };
  const std::array ends{
      offsetof(GemmParams, rows),
      end_of(offsetof(GemmParams, rows), num_rows, sizeof(abi::Vector)),
      end_of(offsetof(GemmParams, cols), num_cols, sizeof(abi::Vector)),
      end_of(offsetof(GemmParams, fewer_rows), config.two_widths || has_short_tiles(config),
             sizeof(abi::TensorMap)),
      end_of(offsetof(GemmParams, second_b), epilogue.is_gated(), sizeof(abi::TensorMap)),
      end_of_maps(num_loads, offsetof(FullSizeMaps, load)),
      end_of_maps(num_stores,
                  cuts ? offsetof(FullSizeMaps, cut_store) : offsetof(FullSizeMaps, store)),
      end_of(offsetof(GemmParams, scalars), num(Access::scalar), sizeof(abi::Vector)),
      end_of(offsetof(GemmParams, partials), num_partials, sizeof(abi::Partials)),
      end_of(offsetof(GemmParams, plain_tiles), variant.plain_loads != 0 ? num_loads : 0,
             sizeof(abi::Matrix)),
      end_of(offsetof(GemmParams, plain_stores),
             variant.plain_stores != 0 || config.grouped ? num_stores : 0, sizeof(abi::Matrix)),
      end_of(offsetof(GemmParams, groups), config.grouped, sizeof(abi::Integers)),
      end_of(offsetof(GemmParams, rows_of_a), config.gathers, sizeof(abi::Integers)),
      end_of(offsetof(GemmParams, rows_of_cols), reaches(indexed.cols), sizeof(abi::Integers)),
      end_of(offsetof(GemmParams, rows_of_tiles), reaches(indexed.tiles), sizeof(abi::Integers)),
      end_of(offsetof(GemmParams, rows_of_stores), reaches(indexed.stores), sizeof(abi::Integers)),
  };
  constexpr std::size_t kAlignment = alignof(GemmParams);
  return (*std::max_element(ends.begin(), ends.end()) + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace epifuse::codegen::sm90
