// The kernel that copies matrices of 8-bit elements with rows and columns exchanged.
#include "codegen/transpose.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <vector>

#include "base/ceil_div.h"
#include "base/check.h"
#include "base/strided.h"
#include "codegen/source_text.h"
#include "epifuse/error.h"
#include "kernels/abi.h"

namespace epifuse::codegen {
namespace {

constexpr std::int64_t kMaxTiles = 0x7fffffff;  // also of a grid
constexpr int kBatchDims = abi::kMaxRank - 2;

char* first_element(const BoundTensor& tensor) {  // of one byte each
  return static_cast<char*>(tensor.data) + tensor.layout.offset;
}

// The leading dims, as few as they can be. How many matrices they have.
std::int64_t set_batch(const ir::Layout& from, const ir::Layout& to, abi::TransposeParams& p) {
  std::vector<std::int64_t> sizes(from.shape.begin(), from.shape.end() - 2),
      from_strides(from.strides.begin(), from.strides.end() - 2),
      to_strides(to.strides.begin(), to.strides.end() - 2);
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (to_strides[d] == 0) sizes[d] = std::min<std::int64_t>(sizes[d], 1);  // repeats
  }
  join_dims(sizes, std::array{&from_strides, &to_strides});
  if (sizes.size() > std::size_t{kBatchDims}) {
    throw ArgumentError(fmt::format(
        "an operand with {} batch dims that cannot be merged; a kernel takes at most {}",
        sizes.size(), kBatchDims));
  }
  std::fill(std::begin(p.batch), std::end(p.batch), 1);
  const std::size_t first = kBatchDims - sizes.size();
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    p.batch[first + d] = static_cast<int>(sizes[d]);
    p.from_batch[first + d] = from_strides[d];
    p.to_batch[first + d] = to_strides[d];
  }
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

// The largest unit at whose multiples all rows start.
int unit_of(const abi::TransposeParams& p) {
  auto starts = reinterpret_cast<std::uintptr_t>(p.from);
  if (p.rows > 1) starts |= static_cast<std::uintptr_t>(p.from_stride);
  for (int d = 0; d < kBatchDims; ++d) {
    if (p.batch[d] > 1) starts |= static_cast<std::uintptr_t>(p.from_batch[d]);
  }
  return starts % 16 == 0 ? 16 : starts % 4 == 0 ? 4 : 1;
}

}  // namespace

KernelSource transpose_source(const targets::TargetInfo& target) {
  KernelParts parts;
  parts.comment = "Matrices of 8-bit elements, with rows and columns exchanged.";
  parts.includes = "#include \"kernels/common/transpose.cuh\"\n";
  parts.bounds = "epifuse::abi::kTransposeThreads";
  parts.entry = "epifuse_transpose";
  parts.params = "abi::TransposeParams";
  parts.body = "  epifuse::transposes::bytes(p);\n";
  return kernel_source(target, parts);
}

Launch transpose_launch(const BoundTensor& from, const BoundTensor& to) {
  const ir::Layout& source = from.layout;
  const ir::Layout& target = to.layout;
  const std::size_t rank = source.shape.size();
  const std::size_t along = target.strides[rank - 1] == 1 ? rank - 1 : rank - 2;  // rows of `to`
  const std::size_t across = along == rank - 1 ? rank - 2 : rank - 1;
  EPIFUSE_CHECK(source.strides[across] == 1 || source.shape[across] <= 1,
                "rows that are transposed are contiguous");
  abi::TransposeParams p{};
  p.from = first_element(from);
  p.to = first_element(to);
  p.rows = source.shape[along];
  p.cols = source.shape[across];
  p.from_stride = source.strides[along];
  p.to_stride = target.strides[across];
  const std::int64_t batch = set_batch(source, target, p);
  p.unit = unit_of(p);
  const std::int64_t row_tiles = ceil_div(p.rows, abi::kTransposeTile),
                     col_tiles = ceil_div(p.cols, abi::kTransposeTile);
  const std::int64_t tiles = row_tiles * col_tiles * batch;
  if (tiles > kMaxTiles) throw ArgumentError("an operand has more tiles than a kernel can number");
  p.row_tiles = static_cast<int>(row_tiles);
  p.col_tiles = static_cast<int>(col_tiles);
  Launch launch;
  launch.grid = static_cast<unsigned>(tiles);
  launch.block = abi::kTransposeThreads;
  launch.overlaps_previous = true;
  set_params(launch, &p, sizeof p);
  return launch;
}

}  // namespace epifuse::codegen
