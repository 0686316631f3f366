// What the sources of GEMM kernels say alike, whichever family writes them.
#include "codegen/gemm_text.h"

#include <fmt/format.h>

namespace epifuse::codegen {
namespace {

std::string_view letters(plan::Major major, std::string_view k_major, std::string_view mn_major) {
  return major == plan::Major::k ? k_major : mn_major;
}

}  // namespace

std::string gemm_comment(const plan::Plan& plan, const plan::FusedGemm& step,
                         std::string_view config, std::string_view variant) {
  const plan::GemmDesc& gemm = step.gemm;
  return fmt::format(
      "{}: {}{} x {}{} -> {}[m, n], {} x {} -> f32, numerics {}\n{}{}{}\n{}", plan.graph.name,
      plan.graph[gemm.a.value].name, letters(gemm.a.major, "[m, k]", "[k, m]"),
      plan.graph[gemm.b.value].name, letters(gemm.b.major, "[n, k]", "[k, n]"),
      gemm.is_grouped()     ? "groups of "
      : gemm.is_k_grouped() ? "groups of k, each "
      : gemm.batch.empty()  ? ""
                            : "batches of ",
      epifuse::name(gemm.a.dtype), epifuse::name(gemm.b.dtype), epifuse::name(plan.numerics),
      config, variant.empty() ? "" : "; ", variant, plan::print(step.epilogue));
}

std::string constant_text(std::string_view constant, std::string_view value,
                          std::string_view meaning) {
  return fmt::format("  static constexpr {} = {};  // {}\n", constant, value, meaning);
}

std::string indexed_text(const EpilogueLayout& layout) {
  std::string out;
  const auto add = [&](std::string_view constant, List list, std::string_view meaning) {
    const unsigned bits = layout.indexed(list);
    if (bits != 0) out += constant_text(constant, fmt::to_string(bits), meaning);
  };
  add("unsigned kIndexedCols", List::cols, "bits: rows are looked up");
  add("unsigned kIndexedTiles", List::tiles, "bits: rows are looked up");
  add("unsigned kIndexedStores", List::results, "bits: rows are put where an index says");
  return out;
}

}  // namespace epifuse::codegen
