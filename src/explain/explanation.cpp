// The facts behind `explain`, before they are written as text or JSON.
#include "explain/explanation.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "ir/infer_scales.h"
#include "ir/op.h"
#include "ir/text.h"

namespace epifuse {
namespace {

using plan::FusedGemm;
using plan::Plan;
using plan::Tail;

constexpr std::size_t kMaxWords = 10;

// "bias, silu and residual"; a long list is cut.
std::string listing(std::vector<std::string> words) {
  if (words.size() > kMaxWords) {
    const std::size_t rest = words.size() - kMaxWords;
    words.resize(kMaxWords);
    words.push_back(fmt::format("{} more", rest));
  }
  if (words.size() == 1) return words[0];
  const std::string last = words.back();
  words.pop_back();
  return fmt::format("{} and {}", fmt::join(words, ", "), last);
}

// The ops of a label, without its stores.
std::vector<std::string> op_words(const std::string& label) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= label.size();) {
    const std::size_t end = std::min(label.find('+', begin), label.size());
    std::string word = label.substr(begin, end - begin);
    const auto op = ir::op_from_name(word);
    const bool is_store = word == "output" || word == "identity" ||
                          (op && (ir::is_reduction(*op) || *op == ir::Op::block_first));
    if (!is_store) words.push_back(std::move(word));
    begin = end + 1;
  }
  return words;
}

std::string operand_text(const ir::Graph& graph, const plan::Operand& operand) {
  return graph[operand.value].name + (operand.transposed ? "^T" : "");
}

// What the product, or both of a gated one, multiply by.
std::string operands_text(const ir::Graph& graph, const plan::GemmDesc& gemm) {
  const std::string b = operand_text(graph, gemm.b);
  switch (gemm.gating) {
    case plan::Gating::none: return b;
    case plan::Gating::halves: return "both halves of " + b;
    case plan::Gating::interleaved: return "the even and the odd columns of " + b;
    case plan::Gating::separate: return b + " and " + operand_text(graph, gemm.second_b);
  }
  return b;
}

std::string_view reduction_phrase(const plan::Epilogue& epilogue, plan::StoreKind kind) {
  switch (kind) {
    case plan::StoreKind::row_sum: return "sums each row";
    case plan::StoreKind::row_max: return "takes the maximum of each row";
    case plan::StoreKind::col_sum: return "sums each column";
    case plan::StoreKind::col_max: return "takes the maximum of each column";
    case plan::StoreKind::block_first:
      return epilogue.has_squares() ? "stores one value for each block of 128 rows and columns"
                                    : "stores one value for each block of 128 columns";
    default: return "stores it";
  }
}

// Each kind of reduction once: "sums each row", ..
std::vector<std::string> reduction_phrases(const plan::Epilogue& epilogue) {
  std::vector<std::string> phrases;
  for (const plan::Store& store : epilogue.stores) {
    const std::string phrase(reduction_phrase(epilogue, store.kind));
    if (store.kind != plan::StoreKind::tile &&
        std::find(phrases.begin(), phrases.end(), phrase) == phrases.end()) {
      phrases.push_back(phrase);
    }
  }
  return phrases;
}

std::string sentence(const Plan& plan, const FusedGemm& step) {
  const ir::Graph& graph = plan.graph;
  const std::string product = fmt::format("Multiplies {} by {}", operand_text(graph, step.gemm.a),
                                          operands_text(graph, step.gemm));
  std::vector<std::string> words = op_words(label(step.epilogue));
  std::vector<std::string> ends = reduction_phrases(step.epilogue);
  if (words.empty() && ends.empty()) return product + " and stores the result as it is.";
  std::string then;
  if (!words.empty()) then = "applies " + listing(std::move(words));
  if (!ends.empty()) {
    then += fmt::format("{}{}", then.empty() ? "" : " and ", listing(std::move(ends)));
  }
  return fmt::format("{}, then {} while the result is still in registers{}.", product, then,
                     step.epilogue.reduces() ? "; what the tiles give is combined after them" : "");
}

std::string sentence(const Plan&, const Tail& step) {
  std::vector<std::string> words = op_words(label(step.epilogue));
  std::string text = step.shape.empty()
                         ? "Computes one number"
                         : fmt::format("Goes over {} element by element", ir::print(step.shape));
  if (!words.empty()) text += ", applies " + listing(std::move(words));
  std::vector<std::string> ends = reduction_phrases(step.epilogue);
  const bool copies = ends.empty() && op_words(label(step.epilogue)).empty();
  if (copies) return text + (step.shape.empty() ? ", a copy." : " and copies them.");
  return ends.empty() ? text + "." : fmt::format("{}, and {}.", text, listing(std::move(ends)));
}

// Every symbol of the graph has a size afterwards.
void assume_sizes(Explanation& explanation) {
  const Sizes given = explanation.sizes;
  for (const std::string& symbol : ir::size_symbols(explanation.plan.graph)) {
    if (explanation.sizes.emplace(symbol, kAssumedSize).second) {
      explanation.assumed.push_back(symbol);
    }
  }
  ir::set_block_counts(explanation.plan.graph, given, explanation.sizes);
}

Cost cost_on(const Machine& machine, const StepCost& step) {
  return {step.bytes(), seconds_at_limits(machine, step.flops, step.dtype, step.bytes())};
}

void add(Cost& sum, const Cost& cost) {
  sum.bytes += cost.bytes;
  sum.seconds += cost.seconds;
}

StepExplanation explain_step(const Plan& plan, const plan::Step& step) {
  StepExplanation result;
  result.what = std::visit([&](const auto& s) { return sentence(plan, s); }, step);
  result.label = std::visit([](const auto& s) { return label(s.epilogue); }, step);
  result.is_product = std::holds_alternative<FusedGemm>(step);
  for (ir::ValueId value : computed_values(plan, step)) {
    const ir::Node& node = plan.graph[value];
    if (!ir::is_matmul(node.op)) result.values.push_back(node.name);
  }
  return result;
}

std::vector<std::string> find_split_off(const Plan& plan) {
  std::set<ir::ValueId> left_out;
  for (const plan::LeftOut& entry : plan.left_out) left_out.insert(entry.value);
  std::vector<std::string> result;
  for (const plan::Step& step : plan.steps) {
    if (std::holds_alternative<FusedGemm>(step)) continue;
    for (ir::ValueId value : computed_values(plan, step)) {
      if (left_out.insert(value).second) result.push_back(plan.graph[value].name);
    }
  }
  return result;
}

}  // namespace

Explanation make_explanation(const Plan& plan, const std::vector<backends::StepReport>& reports,
                             const Target& target, const Sizes& sizes, std::string_view machine) {
  EPIFUSE_CHECK(reports.empty() || reports.size() == plan.steps.size(), "one report per step");
  Explanation result{
      plan, target, find_machine(machine, target.kind), sizes, {}, {}, find_split_off(plan),
      {},   {}};
  assume_sizes(result);
  const std::vector<std::vector<StepCost>> unfused = unfused_costs(plan, result.sizes);
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    StepExplanation step = explain_step(plan, plan.steps[i]);
    step.detail = cost(plan, plan.steps[i], result.sizes);
    step.cost = cost_on(result.machine, step.detail);
    for (const StepCost& op : unfused[i]) add(step.unfused, cost_on(result.machine, op));
    if (!reports.empty()) step.report = reports[i];
    add(result.cost, step.cost);
    add(result.unfused, step.unfused);
    result.steps.push_back(std::move(step));
  }
  return result;
}

}  // namespace epifuse
