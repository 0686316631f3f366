// Writes an explanation for people.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "explain/explain.h"
#include "explain/explanation.h"
#include "ir/text.h"

namespace epifuse {
namespace {

// Three digits that count: "1.23", "12.3", "123".
std::string digits(double x) {
  const int decimals = x >= 99.95 ? 0 : x >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}", x, decimals);
}

std::string bytes_text(double bytes) {
  if (bytes < 1e3) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e6) return digits(bytes / 1e3) + " kB";
  if (bytes < 1e9) return digits(bytes / 1e6) + " MB";
  return digits(bytes / 1e9) + " GB";
}

std::string time_text(double seconds) {
  if (seconds < 1e-8) return "0.01 us";
  if (seconds < 1e-3) return digits(seconds * 1e6) + " us";
  if (seconds < 1) return digits(seconds * 1e3) + " ms";
  return digits(seconds) + " s";
}

std::string rate_text(double per_second, std::string_view unit) {
  return per_second < 1e12 ? fmt::format("{} G{}/s", digits(per_second / 1e9), unit)
                           : fmt::format("{} T{}/s", digits(per_second / 1e12), unit);
}

std::string count(std::size_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::string launches(const Explanation& explanation) {
  const plan::Plan& plan = explanation.plan;
  if (explanation.target.kind != DeviceKind::cuda) return count(plan.steps.size(), "step");
  return count(static_cast<std::size_t>(plan::num_kernels(plan)), "kernel");
}

// What `access` of a transfer means, in words.
std::string_view access_words(std::string_view access) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"operand", "operand"},
      {"tile", "full tensor"},
      {"row", "one value per column"},
      {"col", "one value per row"},
      {"scalar", "one number"},
      {"row_sum", "sum of each row"},
      {"row_max", "maximum of each row"},
      {"col_sum", "sum of each column"},
      {"col_max", "maximum of each column"},
  };
  for (const auto& [word, meaning] : kWords) {
    if (word == access) return meaning;
  }
  return access;
}

// "b bf16[768], one value per column (1.54 kB)"
std::string transfer_text(const Transfer& transfer) {
  if (transfer.access == "parameter") return transfer.name + ", a number passed by value";
  return fmt::format("{} {}{}, {} ({})", transfer.name, name(transfer.dtype),
                     ir::print(transfer.shape), access_words(transfer.access),
                     bytes_text(transfer.bytes));
}

std::string transfers_text(std::string_view title, const std::vector<Transfer>& transfers) {
  std::string text;
  for (const Transfer& transfer : transfers) {
    text += fmt::format("     {:<8}{}\n", text.empty() ? title : "", transfer_text(transfer));
  }
  return text;
}

bool saves(const Cost& fused, const Cost& unfused) {
  return bytes_text(fused.bytes) != bytes_text(unfused.bytes);
}

std::string comparison(const Cost& fused, const Cost& unfused) {
  if (!saves(fused, unfused)) {
    return fmt::format("{}; takes at least {}", bytes_text(fused.bytes), time_text(fused.seconds));
  }
  return fmt::format("{} instead of {} unfused; takes at least {} instead of {}",
                     bytes_text(fused.bytes), bytes_text(unfused.bytes), time_text(fused.seconds),
                     time_text(unfused.seconds));
}

std::string step_text(std::size_t number, const StepExplanation& step) {
  std::string text = fmt::format("\n{:>3}. {}\n", number, step.what);
  text += transfers_text("reads", step.detail.reads);
  text += transfers_text("writes", step.detail.writes);
  if (step.is_product && !step.values.empty()) {
    text += fmt::format("     fused   {}\n", fmt::join(step.values, ", "));
  }
  if (!step.report.how.empty()) text += fmt::format("     runs    {}\n", step.report.how);
  for (const plan::WhyNot& why : step.report.why_not) {
    text += fmt::format("     not     {} ({})\n", why.sentence, why.code);
  }
  return text + fmt::format("     moves   {}\n", comparison(step.cost, step.unfused));
}

std::string left_out_text(const Explanation& explanation) {
  const plan::Plan& plan = explanation.plan;
  if (plan.left_out.empty() && explanation.split_off.empty()) return "\nEverything is fused.\n";
  std::string text;
  if (!plan.left_out.empty()) text += "\nNot fused with a matrix product:\n";
  for (const plan::LeftOut& left_out : plan.left_out) {
    text += fmt::format("     {} ({})\n", left_out.why.sentence, left_out.why.code);
  }
  if (!explanation.split_off.empty()) {
    text += fmt::format(
        "\nNo kernel of this target takes these together with their product, so they follow it:\n"
        "     {}\n",
        fmt::join(explanation.split_off, ", "));
  }
  return text;
}

std::string totals_text(const Explanation& explanation) {
  const Cost &fused = explanation.cost, &unfused = explanation.unfused;
  std::string text = fmt::format("\nIn total moves {}", comparison(fused, unfused));
  if (saves(fused, unfused)) {
    text += fmt::format(": {:.0f} % less memory traffic", 100 * (1 - fused.bytes / unfused.bytes));
  }
  return text + ".\n";
}

std::string assumptions_text(const Explanation& explanation) {
  const Machine& machine = explanation.machine;
  const auto rate_if_any = [&](bool (*is_of)(DType), double rate, std::string_view in) {
    const bool is_any = std::ranges::any_of(explanation.steps, [&](const StepExplanation& step) {
      return step.is_product && is_of(step.detail.dtype);
    });
    return is_any ? fmt::format("{} in {}, ", rate_text(rate, "flop"), in) : "";
  };
  std::string text = fmt::format(
      "Times are the limits of {} ({}): {}{}{} in bf16, {} in f32, {}.\n", machine.name,
      machine.description,
      rate_if_any([](DType dtype) { return dtype == DType::i8; }, machine.i8_flops_per_s, "i8"),
      rate_if_any(is_fp8, machine.fp8_flops_per_s, "fp8"),
      rate_text(machine.bf16_flops_per_s, "flop"), rate_text(machine.f32_flops_per_s, "flop"),
      rate_text(machine.bytes_per_s, "B"));
  std::vector<std::string> sizes;
  for (const auto& [symbol, size] : explanation.sizes) {
    sizes.push_back(fmt::format("{} = {}", symbol, size));
  }
  if (!sizes.empty()) text += fmt::format("Sizes: {}", fmt::join(sizes, ", "));
  if (!explanation.assumed.empty()) {
    text +=
        fmt::format(" ({} assumed, since no size was given)", fmt::join(explanation.assumed, ", "));
  }
  return sizes.empty() ? text : text + ".\n";
}

}  // namespace

std::string explain_text(const plan::Plan& plan, const std::vector<backends::StepReport>& reports,
                         const Target& target, const Sizes& sizes, std::string_view machine) {
  const Explanation explanation = make_explanation(plan, reports, target, sizes, machine);
  std::string text =
      fmt::format("{} on {}, numerics {}{}: {}, {} not fused\n", plan.graph.name, target.arch,
                  name(plan.numerics), plan.allow_tf32 ? " with tf32" : "", launches(explanation),
                  plan.left_out.size() + explanation.split_off.size());
  for (std::size_t i = 0; i < explanation.steps.size(); ++i) {
    text += step_text(i + 1, explanation.steps[i]);
  }
  return text + left_out_text(explanation) + totals_text(explanation) +
         assumptions_text(explanation);
}

}  // namespace epifuse
