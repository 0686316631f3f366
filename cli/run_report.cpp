#include "run_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace epifuse::cli {
namespace {

std::string sizes_text(const Sizes& sizes) {
  std::vector<std::string> words;
  for (const auto& [symbol, size] : sizes) words.push_back(fmt::format("{}={}", symbol, size));
  return fmt::format("{}", fmt::join(words, " "));
}

std::string verdict_text(const reference::Verdict& verdict) {
  if (verdict.empty) return fmt::format("{}: right, it has no elements", verdict.output);
  if (verdict.ok()) {
    return fmt::format("{}: right, {} elements within the bound; largest error {:.3g}",
                       verdict.output, verdict.checked, verdict.max_error);
  }
  return fmt::format(
      "{}: WRONG, {} of {} elements outside the bound; largest error {:.3g}\n{:11}{}",
      verdict.output, verdict.failed, verdict.checked, verdict.max_error, "",
      verdict.first_failure);
}

}  // namespace

void print_report(const RunReport& report) {
  fmt::print("{}  {}  target {}, numerics {}\n", report.graph, sizes_text(report.sizes),
             report.target, report.numerics);
  fmt::print("  plan     {} kernel{}, {} op{} left out of fusion\n", report.num_kernels,
             report.num_kernels == 1 ? "" : "s", report.num_left_out,
             report.num_left_out == 1 ? "" : "s");
  for (const std::string& how : report.how) fmt::print("           {}\n", how);
  for (const std::string& why : report.splits) {
    fmt::print("           run as product and tail on these tensors: {}\n", why);
  }
  fmt::print("  compile  {:.3f} s\n", report.compile_seconds);
  for (const std::string& line : report.tuned) fmt::print("  tune     {}\n", line);
  for (const reference::Verdict& verdict : report.verdicts) {
    fmt::print("  check    {}\n", verdict_text(verdict));
  }
  if (report.time.num_rounds > 0) {
    fmt::print(
        "  time     fused {:.1f} us; one pass over memory per op, without fusion, {:.1f} us\n",
        report.time.us, report.time.baseline_us);
    fmt::print("           {}\n", ratio_text(report.time));
  }
}

void print_table(const std::vector<RunReport>& reports) {
  fmt::print("\n{:<28} {:<14} {:>7} {:>8} {:>10} {:>6} {:>12} {:>12} {:>6}\n", "graph", "sizes",
             "kernels", "compile", "error", "check", "per op us", "fused us", "ratio");
  for (const RunReport& report : reports) {
    double error = 0;
    for (const auto& verdict : report.verdicts) error = std::max(error, verdict.max_error);
    fmt::print("{:<28} {:<14} {:>7} {:>6.2f} s {:>10.3g} {:>6} {:>12.1f} {:>12.1f} {:>6.2f}\n",
               report.graph, sizes_text(report.sizes), report.num_kernels, report.compile_seconds,
               error,
               report.verdicts.empty() ? "-"
               : report.ok()           ? "right"
                                       : "WRONG",
               report.time.baseline_us, report.time.us, report.time.ratio);
  }
  fmt::print(
      "kernels: launches of one run.  error: the largest.  check: right where every element is\n"
      "within the bound computed from float64 (docs/numerics.md).  per op: one pass over memory\n"
      "per op, without fusion.  ratio: fused / per op, the median of the rounds; below 1 fusion "
      "wins.\n");
}

nlohmann::json to_json(const RunReport& report) {
  nlohmann::json out{{"file", report.file},
                     {"graph", report.graph},
                     {"target", report.target},
                     {"numerics", report.numerics},
                     {"sizes", report.sizes},
                     {"kernels", report.num_kernels},
                     {"left_out", report.num_left_out},
                     {"how", report.how},
                     {"tuned", report.tuned},
                     {"splits", report.splits},
                     {"compile_seconds", report.compile_seconds},
                     {"ok", report.ok()},
                     {"outputs", nlohmann::json::array()}};
  for (const reference::Verdict& verdict : report.verdicts) {
    out["outputs"].push_back({{"name", verdict.output},
                              {"checked", verdict.checked},
                              {"failed", verdict.failed},
                              {"max_error", verdict.max_error},
                              {"max_error_over_allowed", verdict.max_ratio},
                              {"relative_error", verdict.relative_error},
                              {"first_failure", verdict.first_failure}});
  }
  if (report.time.num_rounds > 0) {
    out["fused_us"] = report.time.us;
    out["unfused_us"] = report.time.baseline_us;
    out["ratio"] = report.time.ratio;
    out["ratio_middle_half"] = {report.time.low, report.time.high};
    out["rounds"] = report.time.num_rounds;
  }
  return out;
}

}  // namespace epifuse::cli
