// Prints what was measured of functions.
#include "function_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "epifuse/error.h"
#include "ir/op.h"

namespace epifuse::cli {
namespace {

using nlohmann::json;

constexpr double kLanes = 128;         // results a clock of an op that takes one
constexpr double kRoundedUlps = 0.5;   // of a correctly rounded result
constexpr double kLeastClocks = 0.02;  // below: the op vanishes in the instruction beside it

std::string operands_text(const json& row) {
  std::vector<std::string> words;
  for (const json& x : row.at("at")) words.push_back(fmt::format("{:.4g}", x.get<double>()));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string error_text(double x) { return x == 0 ? "0" : fmt::format("{:.1e}", x); }

// Exact to two digits, and never a rounding down to a better number.
std::string ulps_text(double ulps) {
  if (ulps < 1e4) return fmt::format("{:.2f}", ulps);
  return fmt::format("{:.0e}", ulps);
}

std::string share_text(double share) {
  return share == 0 ? "0" : share < 1e-4 ? "< 0.01 %" : fmt::format("{:.2f} %", share * 100);
}

std::string clocks_text(const json& row) {
  if (!row.at("clocks").is_number()) return "-";
  return fmt::format("{:.2f}", row.at("clocks").get<double>());
}

std::string rate_text(const json& row) {
  if (!row.at("clocks").is_number() || row.at("clocks") < kLeastClocks) return "-";
  return fmt::format("{:.1f}", kLanes / row.at("clocks").get<double>());
}

bool is_rounded(const json& row) { return row.at("max_ulps") <= kRoundedUlps; }

// max_share_of_bound says nothing of a result that is rounded correctly: it uses all there is.
std::string bound_text(const json& row) {
  return fmt::format("{:.0f} %", row.at("max_share_of_bound").get<double>() * 100);
}

std::string fast_table(const json& rows) {
  std::string text =
      "| op | float32 ulps | at | bf16 ulps | bf16 results that differ | error where \\|y\\| < "
      "2^-20 "
      "| of the bound | clocks | results a clock |\n|---|---|---|---|---|---|---|---|---|\n";
  for (const json& row : rows) {
    if (row.at("numerics") != "fast" || is_rounded(row)) continue;
    text += fmt::format("| {} | {} | {} | {:.3f} | {} | {} | {} | {} | {} |\n",
                        row.at("workload").get<std::string>(), ulps_text(row.at("max_ulps")),
                        operands_text(row), row.at("max_bf16_ulps").get<double>(),
                        share_text(row.at("bf16_differ")), error_text(row.at("max_small_error")),
                        bound_text(row), clocks_text(row), rate_text(row));
  }
  return text;
}

const json* fast_twin(const json& rows, const json& row) {
  for (const json& other : rows) {
    if (other.at("workload") == row.at("workload") && other.at("numerics") == "fast") return &other;
  }
  return nullptr;
}

std::string approx_table(const json& rows) {
  std::string text =
      "| op | error / (1 + \\|x\\|) | its bound | bf16 results that differ | clocks | clocks in "
      "`fast` "
      "|\n|---|---|---|---|---|---|\n";
  for (const json& row : rows) {
    if (row.at("numerics") != "approx") continue;
    const std::string op = row.at("workload");
    const json* fast = fast_twin(rows, row);
    const auto known = ir::op_from_name(op);
    text += fmt::format(
        "| {} | {} | {} | {} | {} | {} |\n", op, error_text(row.at("max_scaled_error")),
        known ? error_text(ir::info(*known).approx_err) : "-", share_text(row.at("bf16_differ")),
        clocks_text(row), fast != nullptr ? clocks_text(*fast) : "-");
  }
  return text;
}

std::string rounded_sentence(const json& rows) {
  std::vector<std::string> words;
  for (const json& row : rows) {
    if (row.at("numerics") != "fast" || !is_rounded(row)) continue;
    const std::string clocks = clocks_text(row);
    words.push_back(clocks == "-"
                        ? fmt::format("`{}`", row.at("workload").get<std::string>())
                        : fmt::format("`{}` ({})", row.at("workload").get<std::string>(), clocks));
  }
  if (words.empty()) return "";
  return fmt::format("Correctly rounded, at most half an ulp (clocks): {}.\n",
                     fmt::join(words, ", "));
}

}  // namespace

json function_row(const OpAccuracy& found, std::optional<double> clocks,
                  const ResultContext& context) {
  const ir::OpInfo& op = ir::info(found.op);
  json row = {{"suite", "functions"},
              {"workload", op.name},
              {"epilogue", op.name},
              {"dtype", "f32"},
              {"numerics", name(found.numerics)},
              {"contender", "epifuse"},
              {"max_ulps", found.max_ulps},
              {"at", json::array()},
              {"max_bf16_ulps", found.max_bf16_ulps},
              {"bf16_differ", found.bf16_differ},
              {"max_small_error", found.max_small_error},
              {"max_scaled_error", found.max_scaled_error},
              {"max_share_of_bound", found.max_share_of_bound},
              {"num_refused", found.num_refused},
              {"num_samples", found.num_samples},
              {"clocks", clocks ? json(*clocks) : json()},
              {"device", context.device},
              {"driver", context.driver},
              {"commit", context.commit},
              {"command", context.command},
              {"date", context.date}};
  for (int i = 0; i < op.arity; ++i) row["at"].push_back(found.at[static_cast<std::size_t>(i)]);
  return row;
}

std::string function_line_head(bool has_clocks) {
  return fmt::format("{:<12} {:<8} {:>9} {:>10} {:>9} {:>12} {:>11}  {:<6} {}{}\n", "OP",
                     "NUMERICS", "F32 ULPS", "BF16 ULPS", "BF16 OFF", "ERR/(1+|X|)", "BOUND USED",
                     "CHECK", has_clocks ? " CLOCKS  PER CLOCK  " : "", "WORST AT");
}

std::string function_line(const json& row) {
  const bool has_clocks = row.at("clocks").is_number();
  return fmt::format(
      "{:<12} {:<8} {:>9} {:>10.3f} {:>9} {:>12} {:>11}  {:<6} {}{}\n",
      row.at("workload").get<std::string>(), row.at("numerics").get<std::string>(),
      ulps_text(row.at("max_ulps")), row.at("max_bf16_ulps").get<double>(),
      share_text(row.at("bf16_differ")), error_text(row.at("max_scaled_error")), bound_text(row),
      row.at("num_refused") == 0 ? "right" : "WRONG",
      has_clocks ? fmt::format("{:>7} {:>10}  ", clocks_text(row), rate_text(row)) : "",
      operands_text(row));
}

std::string function_legend(bool has_clocks) {
  std::string text =
      "\nF32 ULPS, BF16 ULPS: the largest error, in units of the last place.  BF16 OFF: bf16 "
      "results\n"
      "that are not the nearest.  BOUND USED: the largest error as a share of what the tests "
      "allow;\n"
      "up to 100 % is right.  WORST AT: the operands of the largest error.\n";
  if (has_clocks) {
    text +=
        "CLOCKS: of a multiprocessor for 128 results.  PER CLOCK: results of a multiprocessor.\n";
  }
  return text;
}

std::string function_markdown(const json& rows) {
  if (rows.empty()) throw ArgumentError("expected rows of functions, got none");
  const json& first = rows.front();
  try {
    return fmt::format("Measured on {} at commit {}, {}.\n\n{}\n{}\nUnder `approx`:\n\n{}",
                       first.at("device").get<std::string>(), first.at("commit").get<std::string>(),
                       first.at("date").get<std::string>(), fast_table(rows),
                       rounded_sentence(rows), approx_table(rows));
  } catch (const json::exception& error) {
    throw ArgumentError(fmt::format("expected rows of `epifuse functions`: {}", error.what()));
  }
}

std::string replace_functions(const std::string& document, const std::string& markdown) {
  const std::string begin = "<!-- functions -->\n", end = "<!-- /functions -->\n";
  const std::size_t from = document.find(begin);
  const std::size_t to = document.find(end);
  if (from == std::string::npos || to == std::string::npos || to < from) {
    throw ArgumentError("expected the lines <!-- functions --> and <!-- /functions -->");
  }
  return document.substr(0, from + begin.size()) + markdown + document.substr(to);
}

}  // namespace epifuse::cli
