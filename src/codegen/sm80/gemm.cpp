// Which steps the cp.async + mma.sync GEMM takes, and the text of its kernels.
#include "codegen/sm80/gemm.h"

#include <fmt/format.h>

#include "codegen/block_scales.h"
#include "codegen/epilogue_cuda.h"
#include "codegen/gemm_text.h"
#include "codegen/row_groups.h"
#include "codegen/source_text.h"
#include "ir/views.h"
#include "kernels/abi.h"

namespace epifuse::codegen::sm80 {
namespace {

using plan::FusedGemm;
using plan::WhyNot;

bool is_multiplied(DType dtype) { return is_float(dtype) || dtype == DType::i8; }

// Whether an instruction multiplies one by the other, or b in the 16 bits of a.
bool go_together(const plan::GemmDesc& gemm) {
  const DType a = gemm.a.dtype, b = gemm.b.dtype;
  return a == b || (is_fp8(a) && is_fp8(b)) || (gemm.widens_b() && size_bytes(a) == 2);
}

std::optional<WhyNot> why_not_operand(const plan::Plan& plan, const plan::GemmDesc& gemm,
                                      const plan::Operand& operand, std::string_view side,
                                      const targets::TargetInfo& target) {
  const std::string& name = plan.graph[operand.value].name;
  if (!is_multiplied(operand.dtype) || !go_together(gemm)) {
    return WhyNot{"operand_dtype",
                  fmt::format("{} is {}; this family multiplies bf16, f16, f32 or i8 by the same, "
                              "e4m3 or e5m2 by either, and bf16 or f16 by 8 bits.",
                              name, epifuse::name(operand.dtype))};
  }
  if (gemm.widens_b()) {
    if (auto no = why_not_beside_widened(plan, operand, side)) return no;
  }
  if (is_fp8(operand.dtype) && !gemm.widens_b() && target.fp8_macs_per_clock == 0) {
    return WhyNot{"operand_dtype", fmt::format("{} is {}, which {} has no instruction to multiply.",
                                               name, epifuse::name(operand.dtype), target.name)};
  }
  return why_not_multiplied(plan, operand, side);
}

std::optional<WhyNot> why_not_gather(const plan::Plan& plan, const plan::GemmDesc& gemm) {
  if (gemm.a.lookup < 0) return std::nullopt;
  const auto found = ir::lookup(plan.graph, gemm.a.value);
  if (found && found->dim == 0 && gemm.a.major == plan::Major::k) return std::nullopt;
  return WhyNot{"looked_up_rows", fmt::format("{} is looked up, which takes rows along K.",
                                              plan.graph[gemm.a.value].name)};
}

// The constants in which this kernel differs from the usual one.
std::string unusual_text(const FusedGemm& step, const EpilogueLayout& layout, const Config& config,
                         const Variant& variant) {
  const plan::GemmDesc& gemm = step.gemm;
  std::string out = reductions_cuda(step.epilogue);
  const auto add = [&](bool unusual, std::string_view constant, auto value,
                       std::string_view meaning) {
    if (unusual) out += constant_text(constant, fmt::format("{}", value), meaning);
  };
  constexpr int kUsual = 16;
  if (gemm.b.dtype != gemm.a.dtype) {
    out += fmt::format("  using ElementB = {};\n", element_cuda(gemm.b.dtype));
  }
  add(gemm.a.dtype == DType::i8, "bool kAddsIntegers", true, "of 32 bits");
  add(gemm.promoted, "bool kPromotesSums", true, "of each instruction, in float32");
  add(gemm.is_scaled(), "bool kHasBlockScales", true, "of 128 along K");
  const bool by_turns = has_adjacent_gates(gemm);
  const int columns = config.warp_n / (by_turns ? 1 : config.products);
  add(gemm.is_scaled() && have_one_scale(gemm, columns, by_turns), "bool kScalesByWarp", true,
      "one of b for a warp's columns");
  add(gemm.a.major != plan::Major::k, "bool kAIsKMajor", false, "rows of a run along M");
  add(gemm.b.major != plan::Major::k, "bool kBIsKMajor", false, "rows of b run along N");
  add(variant.alignment_a != kUsual, "int kAlignmentA", variant.alignment_a, "bytes");
  add(variant.alignment_b != kUsual, "int kAlignmentB", variant.alignment_b, "bytes");
  add(is_batched(gemm), "bool kBatched", true, "one product beside another");
  add(gemm.is_grouped(), "bool kGrouped", true, "one for each group of rows");
  add(gemm.is_padded(), "bool kPaddedGroups", true, "of each group so many of its rows");
  add(gemm.is_k_grouped(), "bool kKGrouped", true, "each sums over a group of K");
  add(config.products > 1, "bool kGated", true, "a tile of b holds columns of two products");
  add(has_adjacent_gates(gemm), "bool kAdjacentGates", true, "by turns");
  add(variant.non_tma_loads != 0, "unsigned kNonTmaLoads", variant.non_tma_loads,
      "bits: read element by element");
  add(variant.non_tma_stores != 0, "unsigned kNonTmaStores", variant.non_tma_stores,
      "bits: written element by element");
  add(is_persistent(config), "bool kPersistent", true, "a CTA takes one tile after another");
  add(config.pointer_arrays, "bool kPointerArrays", true, "which are of many problems");
  add(config.split_k > 1, "int kSplitK", config.split_k, "CTAs share the K of a tile");
  add(config.lean, "bool kIsLean", true, "copies line by line");
  add(config.gathers, "bool kGathersA", true, "its rows are looked up");
  out += indexed_text(layout);
  return out;
}

}  // namespace

std::optional<WhyNot> why_not(const plan::Plan& plan, const FusedGemm& step,
                              const targets::TargetInfo& target) {
  constexpr int kAmpere = 8;  // the first with cp.async and bf16
  const plan::GemmDesc& gemm = step.gemm;
  if (target.kind != DeviceKind::cuda || target.major < kAmpere) {
    return WhyNot{"target", fmt::format("{} has no cp.async.", target.name)};
  }
  if (auto no = why_not_gather(plan, gemm)) return no;
  if (auto no = why_not_rows_by_index(plan, step)) return no;
  if (auto no = why_not_operand(plan, gemm, gemm.a, "a", target)) return no;
  if (auto no = why_not_operand(plan, gemm, gemm.b, "b", target)) return no;
  if (gemm.gating == plan::Gating::separate) {
    if (auto no = why_not_operand(plan, gemm, gemm.second_b, "b", target)) return no;
  }
  if (step.epilogue.has_squares()) {
    return WhyNot{"squares", "it takes maxima of blocks of 128 rows and columns."};
  }
  if (step.epilogue.has_blocks() && configs(step, target).empty()) {
    return WhyNot{"blocks", "no tile that leaves registers has whole blocks of columns."};
  }
  return std::nullopt;
}

// Where there is WGMMA its family is faster.
bool suits(const targets::TargetInfo& target) { return !target.has_wgmma; }

KernelSource source(const plan::Plan& plan, const FusedGemm& given, const Config& config,
                    const Variant& variant, const targets::TargetInfo& target) {
  constexpr std::string_view kText = R"(struct Config : sm80::UsualConfig {{
  using Element = {element};  // that is multiplied
  static constexpr int kTileM = {tile_m}, kTileN = {tile_n};
  static constexpr int kWarpM = {warp_m}, kWarpN = {warp_n};
  static constexpr int kStepBytes = {step_bytes};  // of K, of a stage's rows
  static constexpr int kStages = {stages};
  static constexpr int kSharedBytes = {smem};
{unusual}}};

{epilogue})";
  const FusedGemm as_product = by_product(given);
  const FusedGemm step = variant.swapped ? exchanged(as_product) : as_product;
  const EpilogueLayout layout(step.epilogue);
  KernelParts parts;
  parts.comment = gemm_comment(plan, step, print(config), print(variant));
  parts.includes = "\n#include \"kernels/sm80/gemm.cuh\"\n\n#include \"kernels/common/math.cuh\"\n";
  parts.generated =
      fmt::format(fmt::runtime(kText), fmt::arg("element", element_cuda(step.gemm.a.dtype)),
                  fmt::arg("tile_m", config.tile_m), fmt::arg("tile_n", config.tile_n),
                  fmt::arg("warp_m", config.warp_m), fmt::arg("warp_n", config.warp_n),
                  fmt::arg("step_bytes", config.step_bytes), fmt::arg("stages", config.stages),
                  fmt::arg("smem", smem_bytes(config)),
                  fmt::arg("unusual", unusual_text(step, layout, config, variant)),
                  fmt::arg("epilogue", epilogue_cuda(step.epilogue, plan.numerics)));
  parts.bounds = fmt::format("{}, {}", num_threads(config), config.ctas);
  parts.entry = entry_name("gemm", given.epilogue);
  parts.params = config.pointer_arrays
                     ? "abi::ProblemList"
                     : fmt::format("sm80::LeadingParams<{}>", params_bytes(layout, config));
  parts.body = fmt::format(
      "  using namespace epifuse;\n  sm80::{}<generated::Config, generated::Epilogue>({});\n",
      config.pointer_arrays ? "gemm_of_problems" : "gemm",
      config.pointer_arrays ? "p" : "p.params()");
  return kernel_source(target, parts);
}

}  // namespace epifuse::codegen::sm80
