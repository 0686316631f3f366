#include "tune/framework_gemm.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "tune/interpolate.h"

namespace epifuse::tune {
namespace {

struct Row {
  DType dtype;
  codegen::GemmSizes sizes;
  double bias, more;
};

constexpr Row kRows[] = {
#define EPIFUSE_FRAMEWORK_GEMM(dtype, m, n, k, bias, more) {DType::dtype, {1, m, n, k}, bias, more},
#include "tune/framework_gemm.def"
#undef EPIFUSE_FRAMEWORK_GEMM
};

// What a call of ours takes longer than one of the framework's beside its work, which PyTorch's
// loops in the measurements had too, but not those that Inductor joins: as many multiplications.
constexpr double kCall = 4e6;
constexpr std::int64_t kRowsOfWeights = 8;  // fewer take as long: their weights are read

// A product with a vector added to its rows, which hosts' products do themselves.
bool has_only_bias(const plan::FusedGemm& step) { return plan::label(step.epilogue) == "bias"; }

}  // namespace

std::optional<double> framework_ratio(const plan::FusedGemm& step,
                                      const codegen::GemmSizes& sizes) {
  if (sizes.batch != 1 || std::min({sizes.m, sizes.n, sizes.k}) < 1) return std::nullopt;
  if (step.gemm.a.dtype != step.gemm.b.dtype) return std::nullopt;
  const bool only_bias = has_only_bias(step);
  std::vector<targets::MeasuredProduct> rows;
  for (const Row& row : kRows) {
    if (row.dtype == step.gemm.a.dtype) {
      rows.push_back({row.sizes.m, row.sizes.n, row.sizes.k, only_bias ? row.bias : row.more});
    }
  }
  if (rows.empty()) return std::nullopt;
  const auto ratio = interpolate(rows, sizes, std::numeric_limits<double>::infinity(),
                                 [](const targets::MeasuredProduct& row) { return row.value; });
  const auto work = static_cast<double>(std::max(sizes.m, kRowsOfWeights)) *
                    static_cast<double>(sizes.n) * static_cast<double>(sizes.k);
  return *ratio + kCall / work;
}

bool is_framework_faster(double ratio) { return ratio > kMostHostRatio; }

}  // namespace epifuse::tune
