// docs/performance.md and its plot, made from the rows of a results file.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

#include "report_table.h"

namespace epifuse::cli {

// The page. `rows_link` and `plot_link` are paths as seen from it; the plot stands with its suite.
// Throws ArgumentError when `rows` is no list of result rows.
std::string report_markdown(const nlohmann::json& rows, const std::string& rows_link,
                            const std::string& plot_link);

// The suite whose speed-ups are plotted.
inline constexpr const char* kPlottedSuite = "dense";

// Speed-ups over the baseline, launch by launch: one line a point, one kind of mark a contender,
// and the geometric means on top. SVG, readable on light and on dark pages. Empty without points.
std::string report_plot(const ReportTable& table, const std::string& title);

// Reads `rows`, writes the page and, beside it with the ending .svg, the plot. Throws ArgumentError
// when the rows cannot be read, or the page is no .md.
void write_report(const std::filesystem::path& rows, const std::filesystem::path& page);

}  // namespace epifuse::cli
