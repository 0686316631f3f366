#include "codegen/sm90/dense.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "codegen/epilogue_blocks.h"
#include "codegen/epilogue_cuda.h"
#include "codegen/gemm_text.h"
#include "codegen/sm90/few_rows.h"
#include "codegen/sm90/operand_format.h"
#include "codegen/source_text.h"

namespace epifuse::codegen::sm90 {
namespace {

using plan::Access;
using plan::Epilogue;
using plan::FusedGemm;
using plan::WhyNot;

constexpr int kUsualStepK = 64;  // of K, of UsualConfig in kernels/sm90/policies.cuh

// Whether full operands and results may be of it: staged ones, and the bytes of bools, which are
// moved by hand.
bool is_moved(DType dtype) {
  const OperandFormat* format = find_operand_format(dtype);
  return dtype == DType::boolean || (format != nullptr && format->is_staged);
}

// The words of the formats that `is_listed`: "bf16, f16 and f32".
std::string listed(bool (*is_listed)(const OperandFormat&),
                   std::string (*word)(std::string_view dtype), std::string_view separator) {
  std::vector<std::string> words;
  for (const OperandFormat& format : operand_formats()) {
    if (is_listed(format)) words.push_back(word(epifuse::name(format.dtype)));
  }
  const std::string last = words.back();
  words.pop_back();
  return fmt::format("{} and {}", fmt::join(words, separator), last);
}

std::string moved_dtypes() {
  return "bool, " + listed([](const OperandFormat& format) { return format.is_staged; },
                           [](std::string_view dtype) { return std::string(dtype); }, ", ");
}

std::optional<WhyNot> why_not_load(const plan::Load& load) {
  if (load.access != Access::tile || is_moved(load.dtype)) return std::nullopt;
  return WhyNot{"operand_dtype", fmt::format("{} is {}; full operands are read as {}.", load.name,
                                             epifuse::name(load.dtype), moved_dtypes())};
}

std::optional<WhyNot> why_not_store(const plan::Store& store) {
  if (store.kind == plan::StoreKind::tile && !is_moved(store.dtype)) {
    return WhyNot{"result_dtype", fmt::format("{} is {}; the epilogue writes {}.", store.name,
                                              epifuse::name(store.dtype), moved_dtypes())};
  }
  return std::nullopt;
}

// Their maxima are known after all of a tile, when full operands would be read once more.
std::optional<WhyNot> why_not_squares(const Epilogue& epilogue) {
  const auto load = std::ranges::find(epilogue.loads, Access::tile, &plan::Load::access);
  if (!epilogue.has_squares() || load == epilogue.loads.end()) return std::nullopt;
  return WhyNot{"squares_of_full_operands",
                fmt::format("it takes maxima of blocks of 128 rows and columns, and reads {} in "
                            "full beside them.",
                            load->name)};
}

std::string multiplied_dtypes() {
  return listed([](const OperandFormat& format) { return !format.rounds && !is_fp8(format.dtype); },
                [](std::string_view dtype) { return fmt::format("{} by {}", dtype, dtype); }, ", ");
}

std::optional<WhyNot> why_not_operand(const plan::Plan& plan, const plan::Operand& operand,
                                      const plan::Operand& other, std::string_view side) {
  const std::string& name = plan.graph[operand.value].name;
  const OperandFormat* format = find_operand_format(operand.dtype);
  if (format == nullptr || !go_together(operand.dtype, other.dtype)) {
    return WhyNot{"operand_dtype", fmt::format("{} is {}; this family multiplies {}.", name,
                                               epifuse::name(operand.dtype), multiplied_dtypes())};
  }
  if (auto no = why_not_multiplied(plan, operand, side)) return no;
  if (format->only_k_major && operand.major != plan::Major::k) {
    return WhyNot{fmt::format("{}_not_k_major", side),
                  fmt::format("{} is not contiguous along K, as {} operands must be.", name,
                              format->rounds ? format->atom : epifuse::name(format->dtype))};
  }
  return std::nullopt;
}

// Widened ones are those of A once they are multiplied.
std::optional<WhyNot> why_not_operands(const plan::Plan& plan, const plan::GemmDesc& gemm) {
  if (auto no = why_not_operand(plan, gemm.a, gemm.widens_b() ? gemm.a : gemm.b, "a")) return no;
  if (gemm.widens_b()) return std::nullopt;
  if (auto no = why_not_operand(plan, gemm.b, gemm.a, "b")) return no;
  if (gemm.gating != plan::Gating::separate) return std::nullopt;
  return why_not_operand(plan, gemm.second_b, gemm.a, "b");
}

// The template that is the kernel, in a header of its name behind the family's.
struct Template {
  std::string_view header, function;
};
Template kernel_template(const Config& config, const Variant& variant) {
  if (config.widens_b) return {"widened", "dense_widened"};
  if (variant.is_misaligned()) return {"misaligned", "dense_misaligned"};
  return {"dense", "dense"};
}

// The type of the kernel's parameter `p`, and which part of it the kernel takes.
struct ParamsText {
  std::string_view type, block;
};
ParamsText params_text(const Config& config, const Variant& variant) {
  if (variant.is_misaligned()) return {"abi::MisalignedGemmParams", "p"};
  if (config.pointer_arrays) return {"abi::PointerArrayGemmParams", "p.usual"};
  if (config.side_by_side) return {"abi::GemmSideBySideParams", "p.parts[0]"};
  return {"abi::GemmParams", "p"};
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
  const OperandFormat& format = operand_format(gemm.a.dtype);
  add(format.step_k() != kUsualStepK, "int kTileK", format.step_k(),
      fmt::format("of {}: 128 bytes", epifuse::name(format.dtype)));
  add(format.adds_integers(), "bool kAddsIntegers", "true", "of 32 bits");
  add(gemm.promoted, "bool kPromotesSums", "true", "those of each step, in float32");
  const int parts = column_parts(config, gemm);
  add(parts > 1, "int kColumnParts", parts, "of a tile, multiplied by turns");
  add(config.scaling != Scaling::none, "sm90::Scaling kScaling",
      config.scaling == Scaling::by_tile ? "sm90::Scaling::by_tile" : "sm90::Scaling::by_column",
      "blocks of K have scales");
  add(config.products > 1, "sm90::Gates kGates",
      has_adjacent_gates(gemm) ? "sm90::Gates::by_turns" : "sm90::Gates::halves",
      "a tile of b holds columns of two products");
  const unsigned non_tma_loads = variant.non_tma_loads | layout.unstaged(List::tiles);
  const unsigned non_tma_stores = variant.non_tma_stores | layout.unstaged(List::results);
  add(non_tma_loads != 0, "unsigned kNonTmaLoads", non_tma_loads, "bits: not read by TMA");
  add(variant.row_loads != 0, "unsigned kRowLoads", variant.row_loads,
      "bits: columns side by side");
  add(variant.paired_loads != 0, "unsigned kPairedLoads", variant.paired_loads,
      "bits: two elements at a time, others one by one");
  add(non_tma_stores != 0, "unsigned kNonTmaStores", non_tma_stores, "bits: not written by TMA");
  add(variant.copied_stores != 0, "unsigned kCopiedStores", variant.copied_stores,
      "bits: copied from staging, others one by one");
  add(writes_sectors(layout, config, variant), "bool kWholeSectors", "true",
      "of memory, kept until they are");
  add(variant.copied_at_once > 1, "int kCopiedAtOnce", variant.copied_at_once, "elements");
  out += indexed_text(layout);
  if (config.two_widths) {
    out += fmt::format("  using NarrowWgmma = {};\n", wgmma(gemm, config.tile_n - kNarrower));
  }
  return out;
}

}  // namespace

std::optional<WhyNot> why_not(const plan::Plan& plan, const FusedGemm& step,
                              const targets::TargetInfo& target) {
  const plan::GemmDesc& gemm = step.gemm;
  if (!target.has_wgmma || !target.has_tma) {
    return WhyNot{"target", fmt::format("{} has no WGMMA and TMA.", target.name)};
  }
  if (gemm.widens_b()) {
    if (auto no = why_not_widened(plan, step)) return no;
  }
  if (auto no = why_not_groups(plan, step)) return no;
  if (auto no = why_not_operands(plan, gemm)) return no;
  if (auto no = why_not_squares(step.epilogue)) return no;
  for (const plan::Load& load : step.epilogue.loads) {
    if (auto no = why_not_load(load)) return no;
  }
  for (const plan::Store& store : step.epilogue.stores) {
    if (auto no = why_not_store(store)) return no;
  }
  if (configs(step, target).empty()) {
    return WhyNot{"shared_memory",
                  "the epilogue's full operands and results do not fit in shared "
                  "memory beside three stages."};
  }
  return std::nullopt;
}

KernelSource source(const plan::Plan& plan, const FusedGemm& given, const Config& config,
                    const Variant& variant, const targets::TargetInfo& target) {
  constexpr std::string_view kText = R"(struct Config : sm90::UsualConfig {{
  static constexpr int kTileM = {tile_m};
  static constexpr int kTileN = {tile_n};
  static constexpr int kStages = {stages};        // of {stage_kib} KiB: A and B, 128 bytes of K
  static constexpr int kMathColumns = {math_columns};  // computed before any of them is staged
  static constexpr int kSharedBytes = {smem};
  using Wgmma = {wgmma};
{policies}{unusual}}};

{epilogue})";
  const FusedGemm unswapped = as_compiled(given, variant);
  const FusedGemm step = are_exchanged(config, variant) ? exchanged(unswapped) : unswapped;
  const EpilogueLayout layout(step.epilogue);
  const auto include = [&](int columns) {
    return fmt::format("#include \"{}\"\n", wgmma_header(step.gemm, columns));
  };
  const int columns = config.tile_n / column_parts(config, step.gemm);
  std::string includes = include(columns);
  if (config.two_widths) includes += include(config.tile_n - kNarrower);
  KernelParts parts;
  parts.comment = gemm_comment(plan, step, print(config), print(variant));
  parts.includes =
      fmt::format("\n#include \"kernels/sm90/{}.cuh\"\n\n{}#include \"kernels/common/math.cuh\"\n",
                  kernel_template(config, variant).header, includes);
  parts.generated = fmt::format(
      fmt::runtime(kText), fmt::arg("tile_m", config.tile_m), fmt::arg("tile_n", config.tile_n),
      fmt::arg("stages", config.stages), fmt::arg("stage_kib", stage_bytes(config) / 1024),
      fmt::arg("policies", policies_text(step.gemm, layout, config, variant)),
      fmt::arg("math_columns", config.math_columns),
      fmt::arg("smem", smem_bytes(layout, config, variant)),
      fmt::arg("wgmma", wgmma(step.gemm, columns)),
      fmt::arg("unusual", unusual_text(step, layout, config, variant)),
      fmt::arg("epilogue", epilogue_cuda(step.epilogue, plan.numerics)));
  parts.bounds = fmt::format("{}, 1", threads(config));
  parts.entry = entry_name(config.side_by_side ? "side_by_side" : "gemm", given.epilogue);
  const auto [type, block] = params_text(config, variant);
  parts.params = type;
  parts.body = fmt::format(
      "  using namespace epifuse;\n  sm90::{}<generated::Config, generated::Epilogue>({});\n",
      kernel_template(config, variant).function, block);
  return kernel_source(target, parts);
}

}  // namespace epifuse::codegen::sm90
