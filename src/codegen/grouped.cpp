// The kernel of a bare product of groups that no family takes (kernels/common/grouped.cuh,
// k_grouped.cuh).
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "codegen/epilogue_cuda.h"
#include "codegen/grouped.h"
#include "codegen/integers.h"
#include "codegen/source_text.h"

namespace epifuse::codegen {
namespace {

using plan::FusedGemm;

constexpr std::int64_t kTile = 64;  // of kernels/common/grouped.cuh
constexpr std::int64_t kBlocksPerSm = 4;

// The last two dims as rows and columns, the one before, if any, as that of groups.
abi::Matrix matrix(const BoundTensor& tensor, DType dtype, bool transposed) {
  const ir::Layout& layout = tensor.layout;
  const std::size_t rank = layout.shape.size();
  abi::Matrix out{};
  out.data = static_cast<char*>(tensor.data) +
             layout.offset * static_cast<std::int64_t>(size_bytes(dtype));
  out.row_stride = layout.strides[rank - 2];
  out.col_stride = layout.strides[rank - 1];
  if (transposed) std::swap(out.row_stride, out.col_stride);
  if (rank > 2) out.batch.inner = layout.strides[rank - 3];
  return out;
}

const plan::Store& only_store(const FusedGemm& step) {
  EPIFUSE_CHECK(plan::is_bare(step) && step.gemm.has_groups(), "a bare grouped product");
  return step.epilogue.stores.front();
}

}  // namespace

KernelSource grouped_source(const plan::Plan& plan, const FusedGemm& step,
                            const targets::TargetInfo& target) {
  const plan::GemmDesc& gemm = step.gemm;
  const plan::Store& store = only_store(step);
  KernelParts parts;
  const bool by_k = gemm.is_k_grouped();
  const std::string& a = plan.graph[gemm.a.value].name;
  parts.comment = by_k ? fmt::format("Groups of columns of {} times the same rows of {}.", a,
                                     plan.graph[gemm.b.value].name)
                       : fmt::format("Groups of rows of {} times a matrix each.", a);
  parts.includes =
      fmt::format("#include \"kernels/common/{}.cuh\"\n", by_k ? "k_grouped" : "grouped");
  parts.bounds = "epifuse::abi::kGroupedThreads";
  parts.entry = "epifuse_grouped_product";
  parts.params = "abi::GroupedParams";
  parts.body = fmt::format(
      "  using namespace epifuse;\n"
      "  grouped::{}<{}, {}, {}>(p);  // of a, b and the result\n",
      by_k ? "product_by_k" : "product", element_cuda(gemm.a.dtype), element_cuda(gemm.b.dtype),
      element_cuda(store.dtype));
  return kernel_source(target, parts);
}

Launch grouped_launch(const plan::Plan& plan, const FusedGemm& step, const Bound& bound,
                      const targets::DeviceLimits& limits) {
  const plan::GemmDesc& gemm = step.gemm;
  const plan::Store& store = only_store(step);
  const ir::Graph& graph = plan.graph;
  abi::GroupedParams p{};
  p.a = matrix(bound[gemm.a.value], gemm.a.dtype, gemm.a.transposed);
  p.b = matrix(bound[gemm.b.value], gemm.b.dtype, gemm.b.transposed);
  p.d = matrix(bound[store.value], store.dtype, false);
  p.m = gemm.m.eval(bound.sizes);
  p.n = gemm.n.eval(bound.sizes);
  p.k = gemm.k.eval(bound.sizes);
  p.groups = kernel_integers(graph, graph[gemm.matmul], bound);
  p.is_padded = gemm.is_padded();
  p.looks_up = gemm.a.lookup >= 0;
  if (p.looks_up) p.rows_of_a = kernel_integers(graph, graph[gemm.a.lookup], bound);

  const std::int64_t groups = p.groups.num_rows;
  const std::int64_t products = gemm.is_padded() || gemm.is_k_grouped() ? groups : 1;
  const std::int64_t rows_of_tiles = products * (p.m / kTile + std::min<std::int64_t>(groups, p.m));
  const std::int64_t tiles = rows_of_tiles * ((p.n + kTile - 1) / kTile);
  Launch launch;
  launch.grid = static_cast<unsigned>(std::min(tiles, limits.num_sms * kBlocksPerSm));
  launch.block = abi::kGroupedThreads;
  launch.overlaps_previous = true;
  set_params(launch, &p, sizeof p);
  return launch;
}

}  // namespace epifuse::codegen
