// Where kernels leave partial results of reductions.
#include "codegen/partials.h"

#include <algorithm>
#include <utility>

#include "base/ceil_div.h"

namespace epifuse::codegen {

ReducedSpace reduced_space(const plan::FusedGemm& step, const Sizes& sizes, bool are_exchanged) {
  ReducedSpace out;
  for (const Dim& dim : step.gemm.batch) out.batch.push_back(dim.eval(sizes));
  out.m = step.gemm.m.eval(sizes);
  out.n = step.gemm.n.eval(sizes);
  if (are_exchanged) std::swap(out.m, out.n);
  const bool rows = std::ranges::any_of(
      step.epilogue.stores, [](const auto& store) { return plan::reduces_rows(store.kind); });
  out.along_rows = rows != are_exchanged;
  return out;
}

Partials lay_out_partials(std::vector<std::int64_t> batch, std::int64_t parts,
                          std::int64_t num_parts, std::int64_t length) {
  constexpr std::int64_t kInVectors = 4;  // rows that a tail can read 16 bytes at a time
  const std::int64_t stride = ceil_div(length, kInVectors) * kInVectors;
  std::int64_t bytes = parts * stride * static_cast<std::int64_t>(sizeof(float));
  for (const std::int64_t each : batch) bytes *= each;
  std::vector<std::int64_t> shape = std::move(batch);
  shape.push_back(parts);
  Partials out;
  out.num_parts = num_parts;
  out.bytes = static_cast<std::size_t>(bytes);
  out.layout.strides = TensorView::dense_strides(shape);
  for (std::int64_t& each : out.layout.strides) each *= stride;
  shape.push_back(length);
  out.layout.strides.push_back(1);
  out.layout.shape = std::move(shape);
  return out;
}

}  // namespace epifuse::codegen
