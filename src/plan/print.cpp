// Prints plans and epilogues as text.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "ir/op.h"
#include "ir/text.h"
#include "plan/plan.h"

namespace epifuse::plan {
namespace {

std::string print(const Load& load) {
  const bool is_strided =
      !load.unit_stride && load.access != Access::parameter && load.access != Access::scalar;
  return fmt::format("load {}: {}{}{} {}{}", load.name, load.batched ? "batched " : "",
                     load.by_group      ? "group's "
                     : load.lookup >= 0 ? "looked-up "
                                        : "",
                     name(load.access), name(load.dtype), is_strided ? " strided" : "");
}

// Behind what is of blocks.
std::string rows_text(const Epilogue& epilogue) {
  if (!epilogue.has_squares()) return "";
  return fmt::format(" [{}, {}]", epilogue.block_rows, ir::kBlockColumns);
}

std::string print(const Epilogue& epilogue, const Compute& compute) {
  if (compute.op == ir::Op::constant) return "constant " + number_text(compute.value);
  std::vector<std::string> args;
  for (int i = 0; i < ir::info(compute.op).arity; ++i) {
    args.push_back(slot_name(epilogue, compute.args[static_cast<std::size_t>(i)]));
  }
  const std::string text = fmt::format("{} {}", ir::name(compute.op), fmt::join(args, ", "));
  if (compute.op == ir::Op::block_max) return text + rows_text(epilogue);
  return compute.op == ir::Op::cast ? fmt::format("{} -> {}", text, name(compute.dtype)) : text;
}

std::string print(const Epilogue& epilogue, const Store& store) {
  std::string source = slot_name(epilogue, store.source);
  if (store.second >= 0) source += ", " + slot_name(epilogue, store.second);
  const std::string kind =
      store.kind == StoreKind::tile ? "" : fmt::format("{} ", name(store.kind));
  std::string part = store.part == Part::whole ? "" : fmt::format(" {}", name(store.part));
  if (store.index >= 0) part += " by index";
  if (store.kind == StoreKind::block_first) source += rows_text(epilogue);
  return fmt::format("store {}{}: {} = {}{}", store.name, part, name(store.dtype), kind, source);
}

std::string_view name(Major major) {
  switch (major) {
    case Major::k: return "k-major";
    case Major::mn: return "mn-major";
    default: return "unknown-major";
  }
}

std::string print(const ir::Graph& graph, const Operand& operand) {
  const ir::Node& node = graph[operand.value];
  return fmt::format("{}{}: {}{}{}{} {}{}", node.name, operand.transposed ? "^T" : "",
                     operand.batched ? "batched " : "", operand.lookup >= 0 ? "looked-up " : "",
                     name(operand.dtype), ir::print(node.type.shape), name(operand.major),
                     operand.k_major_copy ? " copy" : "");
}

std::string print(const ir::Graph& graph, const OperandScales& scales) {
  const ir::Node& node = graph[scales.value];
  return fmt::format("{}: {}{}", node.name, ir::print(node.type.shape),
                     scales.are_shared ? " for 128 rows each" : "");
}

std::string print(const Plan& plan, const FusedGemm& step) {
  const GemmDesc& gemm = step.gemm;
  ir::Shape shape = gemm.batch;
  shape.push_back(gemm.m);
  shape.push_back(gemm.n);
  const bool is_gated = gemm.gating != Gating::none;
  std::string text = fmt::format(
      "gemm {}: {}{}, k = {}{}{}{}{}{}  # {}\n  a {}\n  b {}\n", plan.graph[gemm.matmul].name,
      name(gemm.result), ir::print(shape), gemm.k.str(), gemm.flattened ? ", flattened" : "",
      gemm.promoted ? ", promoted" : "",
      is_gated ? fmt::format(", gated: {}", name(gemm.gating)) : "",
      gemm.is_grouped() ? fmt::format(", groups by {}", plan.graph[gemm.groups].name) : "",
      gemm.is_k_grouped() ? fmt::format(" by groups {}", plan.graph[gemm.k_groups].name) : "",
      label(step.epilogue), print(plan.graph, gemm.a), print(plan.graph, gemm.b));
  if (gemm.is_scaled()) {
    text += fmt::format("  scales of a {}, of b {}\n", print(plan.graph, gemm.a_scales),
                        print(plan.graph, gemm.b_scales));
  }
  if (gemm.gating != Gating::separate) return text;
  text += fmt::format("  and {}: b {}\n", plan.graph[gemm.second].name,
                      print(plan.graph, gemm.second_b));
  if (!gemm.is_scaled()) return text;
  return text + fmt::format("  scales of it {}\n", print(plan.graph, gemm.second_b_scales));
}

std::string print(const Plan&, const Tail& tail) {
  return fmt::format("tail {}  # {}\n", ir::print(tail.shape), label(tail.epilogue));
}

std::string indented(const std::string& lines) {
  std::string result = lines.empty() ? "" : "  ";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    result += lines[i];
    if (lines[i] == '\n' && i + 1 < lines.size()) result += "  ";
  }
  return result;
}

}  // namespace

std::string_view name(Access access) {
  switch (access) {
    case Access::parameter: return "parameter";
    case Access::scalar: return "scalar";
    case Access::row: return "row";
    case Access::col: return "col";
    case Access::tile: return "tile";
  }
  return "";
}

std::string_view name(StoreKind kind) {
  switch (kind) {
    case StoreKind::tile: return "tile";
    case StoreKind::row_sum: return "row_sum";
    case StoreKind::row_max: return "row_max";
    case StoreKind::col_sum: return "col_sum";
    case StoreKind::col_max: return "col_max";
    case StoreKind::block_first: return "block_first";
  }
  return "";
}

std::string_view name(Part part) {
  switch (part) {
    case Part::whole: return "whole";
    case Part::first_half: return "first half";
    case Part::second_half: return "second half";
    case Part::even: return "even columns";
    case Part::odd: return "odd columns";
    case Part::pairs: return "pairs";
  }
  return "";
}

ir::Halves halves(Part part) {
  if (part == Part::first_half || part == Part::second_half) return ir::Halves::behind;
  return part == Part::even || part == Part::odd ? ir::Halves::by_turns : ir::Halves::none;
}

bool is_second(Part part) { return part == Part::second_half || part == Part::odd; }

std::string slot_name(const Epilogue& epilogue, Slot slot) {
  if (slot < epilogue.first_load()) return epilogue.is_gated() ? slot == 0 ? "gate" : "up" : "acc";
  if (slot >= epilogue.first_compute()) return fmt::format("t{}", slot - epilogue.first_compute());
  return epilogue.loads[static_cast<std::size_t>(slot - epilogue.first_load())].name;
}

std::string print(const Epilogue& epilogue) {
  std::string text;
  for (const Load& load : epilogue.loads) text += print(load) + "\n";
  for (std::size_t i = 0; i < epilogue.computes.size(); ++i) {
    text += fmt::format("t{} = {}\n", i, print(epilogue, epilogue.computes[i]));
  }
  for (const Store& store : epilogue.stores) text += print(epilogue, store) + "\n";
  return text;
}

std::string print(const Plan& plan) {
  std::string text =
      fmt::format("plan {}: {}{}, steps {}, left out {}\n", plan.graph.name, name(plan.numerics),
                  plan.allow_tf32 ? ", tf32" : "", plan.steps.size(), plan.left_out.size());
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    text += fmt::format("{}: ", i);
    text += std::visit([&](const auto& step) { return print(plan, step); }, plan.steps[i]);
    text += indented(print(plan.epilogue(i)));
  }
  for (const LeftOut& left_out : plan.left_out) {
    text += fmt::format("left out {}: {}: {}\n", plan.graph[left_out.value].name, left_out.why.code,
                        left_out.why.sentence);
  }
  return text;
}

}  // namespace epifuse::plan
