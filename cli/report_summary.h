// What the rows of a results file come to, in one table: the first thing on the page.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace epifuse::cli {

// A table in markdown of epifuse's time over that of what a user would run otherwise: geometric
// means over a suite's points, and whole models. Empty without such rows.
std::string report_summary(const nlohmann::json& rows);

}  // namespace epifuse::cli
