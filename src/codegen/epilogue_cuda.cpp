#include "codegen/epilogue_cuda.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/check.h"
#include "base/text.h"
#include "codegen/bound.h"
#include "codegen/epilogue_blocks.h"
#include "codegen/epilogue_layout.h"
#include "ir/op.h"

namespace epifuse::codegen {
namespace {

using plan::Access;
using plan::Compute;
using plan::Epilogue;
using plan::Slot;

// An operator between one or two operands reads better in place than as a call.
constexpr std::size_t kLongestInlineText = 7;

std::string_view op_text(ir::Op op, Numerics numerics) {
  const ir::OpInfo& row = ir::info(op);
  if (numerics == Numerics::approx) return row.approx;
  return row.fast;
}

// `text` with x0, x1, x2 replaced by names.
std::string substitute(std::string_view text, const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool operand = text[i] == 'x' && i + 1 < text.size() && text[i + 1] >= '0' &&
                         text[i + 1] <= '2' && (i == 0 || !std::isalnum(text[i - 1]));
    if (operand) {
      out += names[static_cast<std::size_t>(text[++i] - '0')];
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string_view index_of(Access access) {
  switch (access) {
    case Access::row: return "[n]";
    case Access::col: return "[m]";
    case Access::tile: return "[m, n]";
    default: return "";
  }
}

// Positional names, so that kernels that differ in tensor names only are the same kernel.
std::vector<std::string> slot_names(const Epilogue& epilogue, const EpilogueLayout& layout) {
  std::vector<std::string> names;
  if (epilogue.is_gated()) names = {"gate", "up"};
  if (epilogue.num_accumulators == 1) names = {"acc"};
  for (std::size_t i = 0; i < epilogue.loads.size(); ++i) {
    names.push_back(
        fmt::format("{}{}", plan::name(epilogue.loads[i].access), layout.loads()[i].index));
  }
  for (std::size_t i = 0; i < epilogue.computes.size(); ++i) names.push_back(fmt::format("t{}", i));
  return names;
}

std::string literal(double value) {
  if (value != value) return "__int_as_float(0x7fffffff)";
  if (value > 3.4028235677973366e38) return "__int_as_float(0x7f800000)";
  if (value < -3.4028235677973366e38) return "__int_as_float(0xff800000)";
  std::string text = fmt::format("{}", static_cast<float>(value));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

std::string constant_text(const Epilogue& epilogue, const EpilogueLayout& layout,
                          const Compute& constant) {
  const auto number =
      std::count_if(epilogue.computes.data(), &constant,
                    [](const Compute& compute) { return compute.op == ir::Op::constant; });
  if (number >= std::ssize(layout.constants())) return literal(constant.value);
  return fmt::format("x.parameter[{}]", layout.size(List::parameters) + number);
}

std::string statement(const Epilogue& epilogue, const EpilogueLayout& layout,
                      const Compute& compute, const std::vector<std::string>& names,
                      Numerics numerics) {
  if (compute.op == ir::Op::constant) return constant_text(epilogue, layout, compute);
  if (compute.op == ir::Op::block_max) {
    const std::vector<const Compute*> all = block_maxima(epilogue);
    return fmt::format("x.block[{}]", std::ranges::find(all, &compute) - all.begin());
  }
  std::vector<std::string> args;
  for (int a = 0; a < ir::info(compute.op).arity; ++a) {
    args.push_back(names[static_cast<std::size_t>(compute.args[static_cast<std::size_t>(a)])]);
  }
  if (compute.op == ir::Op::cast) {
    const bool is_sum = compute.args[0] < epilogue.num_accumulators;
    if (is_sum && compute.dtype != DType::bf16) args[0] = fmt::format("detached({})", args[0]);
    return fmt::format("round_to<{}>({})", element_cuda(compute.dtype), args[0]);
  }
  const std::string_view text = op_text(compute.op, numerics);
  if (text.size() <= kLongestInlineText) return substitute(text, args);
  return fmt::format("op_{}({})", ir::name(compute.op), fmt::join(args, ", "));
}

// The ops that are called by name, each as a function above the struct.
std::string op_functions(const Epilogue& epilogue, Numerics numerics) {
  std::string out;
  std::set<ir::Op> done;
  for (const Compute& compute : epilogue.computes) {
    const bool is_op = ir::is_elementwise(compute.op) && compute.op != ir::Op::cast;
    if (!is_op) continue;
    const std::string_view text = op_text(compute.op, numerics);
    if (text.size() <= kLongestInlineText || !done.insert(compute.op).second) continue;
    std::string parameters;
    for (int a = 0; a < ir::info(compute.op).arity; ++a) {
      parameters += fmt::format("{}float x{}", a ? ", " : "", a);
    }
    out += fmt::format(
        "__device__ __forceinline__ float op_{}({}) {{\n  using T = float;\n  return {};\n}}\n\n",
        ir::name(compute.op), parameters, text);
  }
  return out;
}

std::string types_line(const Epilogue& epilogue, const EpilogueLayout& layout,
                       std::string_view alias, List list) {
  std::vector<std::string> types, names;
  for (int i : layout.of(list)) {
    const plan::Load& load = epilogue.loads[static_cast<std::size_t>(i)];
    types.emplace_back(element_cuda(load.dtype));
    names.push_back(load.name + std::string(index_of(load.access)));
  }
  const std::string line = fmt::format("  using {} = Types<{}>;", alias, fmt::join(types, ", "));
  return names.empty() ? line + "\n" : fmt::format("{}  // {}\n", line, fmt::join(names, ", "));
}

std::string stores_line(const Epilogue& epilogue, const EpilogueLayout& layout) {
  std::vector<std::string> types, names;
  for (int i : layout.of(List::results)) {
    const plan::Store& store = epilogue.stores[static_cast<std::size_t>(i)];
    types.emplace_back(element_cuda(stored_dtype(store)));
    names.push_back(store.name);
  }
  const std::string line = fmt::format("  using Stores = Types<{}>;", fmt::join(types, ", "));
  return names.empty() ? line + "\n" : fmt::format("{}  // {}\n", line, fmt::join(names, ", "));
}

std::string result_text(const Epilogue& epilogue, const plan::Store& store,
                        const std::vector<std::string>& names) {
  const auto value = [&](Slot slot) {
    const std::string& name = names[static_cast<std::size_t>(slot)];
    const bool is_sum = slot < epilogue.num_accumulators && store.part == plan::Part::pairs;
    return is_sum ? fmt::format("detached({})", name) : name;
  };
  if (store.part != plan::Part::pairs) return value(store.source);
  return fmt::format("__uint_as_float(pack<{}>({}, {}))", element_cuda(store.dtype),
                     value(store.source), value(store.second));
}

std::string_view accumulators_text(const Epilogue& epilogue) {
  if (epilogue.is_gated()) return "float gate, float up, ";
  return epilogue.has_accumulator() ? "float acc, " : "";
}

// "acc"; "gate" or "up" of a gated product.
std::string_view accumulator_name(const Epilogue& epilogue, std::size_t i) {
  if (!epilogue.is_gated()) return "acc";
  return i == 0 ? "gate" : "up";
}

// The loads and computes of a pass.
std::string values_text(const Epilogue& epilogue, const EpilogueLayout& layout, Numerics numerics,
                        BlockPass pass) {
  const std::vector<std::string> names = slot_names(epilogue, layout);
  const std::vector<bool> needed = slots_of_pass(epilogue, pass);
  const std::vector<Slot> carried = carried_slots(epilogue);
  std::string out;
  for (std::size_t i = 0; i < epilogue.loads.size(); ++i) {
    const plan::Load& load = epilogue.loads[i];
    const std::size_t slot = static_cast<std::size_t>(epilogue.first_load()) + i;
    if (!needed[slot]) continue;
    out += fmt::format("    const float {} = x.{}[{}];  // {}{}\n", names[slot],
                       plan::name(load.access), layout.loads()[i].index, load.name,
                       index_of(load.access));
  }
  for (std::size_t i = 0; i < epilogue.computes.size(); ++i) {
    const std::size_t slot = static_cast<std::size_t>(epilogue.first_compute()) + i;
    const Compute& compute = epilogue.computes[i];
    if (!needed[slot]) continue;
    const auto kept = std::ranges::find(carried, static_cast<Slot>(slot));
    if (pass == BlockPass::behind_maxima && kept != carried.end()) {
      out +=
          fmt::format("    const float {} = {};\n", names[slot],
                      accumulator_name(epilogue, static_cast<std::size_t>(kept - carried.begin())));
      continue;
    }
    out += fmt::format("    const float {} = {};", names[slot],
                       statement(epilogue, layout, compute, names, numerics));
    if (compute.op == ir::Op::constant) out += fmt::format("  // {}", number_text(compute.value));
    out += "\n";
  }
  return out;
}

std::string body(const Epilogue& epilogue, const EpilogueLayout& layout, Numerics numerics) {
  const std::vector<std::string> names = slot_names(epilogue, layout);
  std::string out = values_text(epilogue, layout, numerics, BlockPass::behind_maxima);
  int result = 0;
  for (int i : layout.result_order()) {
    const plan::Store& store = epilogue.stores[static_cast<std::size_t>(i)];
    out += fmt::format("    out[{}] = {};  // {}\n", result++, result_text(epilogue, store, names),
                       store.name);
  }
  return out;
}

// Bit i: whether the i-th full operand is needed behind the maxima.
unsigned tiles_of_results(const Epilogue& epilogue, const EpilogueLayout& layout) {
  const std::vector<bool> needed = slots_of_pass(epilogue, BlockPass::behind_maxima);
  unsigned bits = 0;
  for (int i : layout.of(List::tiles)) {
    const bool is_needed = needed[static_cast<std::size_t>(epilogue.first_load() + i)];
    if (is_needed) bits |= 1u << layout.loads()[static_cast<std::size_t>(i)].index;
  }
  return bits;
}

// The members that an epilogue with blocks has beside the others.
std::string blocks_text(const Epilogue& epilogue, const EpilogueLayout& layout, Numerics numerics) {
  if (!epilogue.has_blocks()) return "";
  const std::vector<const Compute*> maxima = block_maxima(epilogue);
  std::string out = fmt::format(
      "  static constexpr int kNumBlocks = {};         // maxima of 128 columns\n"
      "  static constexpr unsigned kBlockStores = {};  // bits: of the first element of each\n"
      "  static constexpr unsigned kResultTiles = {};  // bits: full operands behind them\n"
      "  static constexpr int kRowsOfBlock = {};\n\n",
      maxima.size(), layout.of_blocks(), tiles_of_results(epilogue, layout), epilogue.block_rows);
  if (maxima.empty()) return out;
  const std::vector<std::string> names = slot_names(epilogue, layout);
  const auto name = [&](Slot slot) { return names[static_cast<std::size_t>(slot)]; };
  out += fmt::format(
      "  static __device__ __forceinline__ void measure({}const Operands<Epilogue>& x,\n"
      "                                                 float (&out)[{}]) {{\n",
      epilogue.is_gated()          ? "float& gate, float& up, "
      : epilogue.has_accumulator() ? "float& acc, "
                                   : "",
      maxima.size());
  out += values_text(epilogue, layout, numerics, BlockPass::before_maxima);
  for (std::size_t i = 0; i < maxima.size(); ++i) {
    out += fmt::format("    out[{}] = {};\n", i, name(maxima[i]->args[0]));
  }
  const std::vector<Slot> carried = carried_slots(epilogue);
  for (std::size_t i = 0; i < carried.size(); ++i) {
    const std::string_view to = accumulator_name(epilogue, i);
    const bool is_cast =
        carried[i] >= epilogue.first_compute() &&
        epilogue.computes[static_cast<std::size_t>(carried[i] - epilogue.first_compute())].op ==
            ir::Op::cast;
    if (name(carried[i]) == to) continue;
    out += fmt::format("    {} = {};\n", to,
                       is_cast ? fmt::format("detached({})", name(carried[i])) : name(carried[i]));
  }
  return out + "  }\n\n";
}

}  // namespace

std::string_view element_cuda(DType dtype) {
  switch (dtype) {
    case DType::f32: return "F32";
    case DType::bf16: return "Bf16";
    case DType::f16: return "F16";
    case DType::e4m3: return "E4m3";
    case DType::e5m2: return "E5m2";
    case DType::boolean: return "Bool";
    case DType::i32:
    case DType::i64: break;  // nothing is computed of them
    case DType::i8: return "I8";
  }
  return "";
}

std::string_view reduce_cuda(plan::StoreKind kind) {
  switch (kind) {
    case plan::StoreKind::block_first:
    case plan::StoreKind::tile: return "Reduce::none";
    case plan::StoreKind::row_sum:
    case plan::StoreKind::col_sum: return "Reduce::sum";
    case plan::StoreKind::row_max:
    case plan::StoreKind::col_max: return "Reduce::max";
  }
  return "";
}

std::string reductions_cuda(const Epilogue& epilogue) {
  std::string out;
  const auto add = [&](std::string_view list, bool (*is_in)(plan::StoreKind)) {
    std::vector<std::string> kinds, names;
    for (const plan::Store& store : epilogue.stores) {
      if (!is_in(store.kind)) continue;
      kinds.emplace_back(reduce_cuda(store.kind));
      names.push_back(store.name);
    }
    if (kinds.empty()) return;
    out += fmt::format("  using {} = Reductions<{}>;  // {}\n", list, fmt::join(kinds, ", "),
                       fmt::join(names, ", "));
  };
  add("RowReductions", plan::reduces_rows);
  add("ColReductions", plan::reduces_columns);
  return out;
}

std::string epilogue_cuda(const Epilogue& epilogue, Numerics numerics) {
  const EpilogueLayout layout(epilogue);
  std::string out = op_functions(epilogue, numerics);
  out += "struct Epilogue {\n";
  out += types_line(epilogue, layout, "Rows", List::rows);
  out += types_line(epilogue, layout, "Cols", List::cols);
  out += types_line(epilogue, layout, "Tiles", List::tiles);
  out += types_line(epilogue, layout, "Scalars", List::scalars);
  out += stores_line(epilogue, layout);
  out += fmt::format("  static constexpr int kNumParameters = {};\n\n", layout.num_parameters());
  out += blocks_text(epilogue, layout, numerics);
  out += fmt::format(
      "  static __device__ __forceinline__ void apply({}const Operands<Epilogue>& x,\n"
      "                                               float (&out)[{}]) {{\n",
      accumulators_text(epilogue), epilogue.stores.size());
  out += body(epilogue, layout, numerics);
  out += "  }\n};\n";
  return out;
}

}  // namespace epifuse::codegen
