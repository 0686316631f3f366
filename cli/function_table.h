// The results of `epifuse functions`: rows of JSON, a table for the terminal, tables for the docs.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

#include "check/op_accuracy.h"
#include "results.h"

namespace epifuse::cli {

// A row of bench/results/functions_<device>.json. Beside the keys that all results have: max_ulps
// and at (the operands there), max_bf16_ulps, bf16_differ, max_small_error, max_scaled_error,
// max_share_of_bound, num_refused, num_samples, as op_accuracy.h defines them, and clocks, as
// op_cost.h does (null where none were measured).
nlohmann::json function_row(const OpAccuracy& found, std::optional<double> clocks,
                            const ResultContext& context);

// One line of the terminal's table, its head, and what the columns mean. Costs are shown where they
// were measured.
std::string function_line_head(bool has_clocks);
std::string function_legend(bool has_clocks);
std::string function_line(const nlohmann::json& row);

// The tables of docs/numerics.md: all functions under `fast`, and those that `approx` replaces.
// Operations of one instruction whose results are correctly rounded are named in one sentence.
// Throws ArgumentError for rows of something else.
std::string function_markdown(const nlohmann::json& rows);

// `document` with everything between the lines `<!-- functions -->` and `<!-- /functions -->`
// replaced. Throws ArgumentError when it has no such lines.
std::string replace_functions(const std::string& document, const std::string& markdown);

}  // namespace epifuse::cli
