// The rows of a results file, arranged for people: one line a point, one column a contender.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace epifuse::cli {

// A time over that of the baseline. 0: not measured.
struct Ratios {
  double interleaved = 0, sustained = 0;
};

struct ReportPoint {
  std::string workload, epilogue, config;  // config: how epifuse ran
  std::int64_t m = 0, n = 0, k = 0;
  std::map<std::string, Ratios> contenders;

  std::string size() const;                       // "4096 x 4096 x 14336"
  Ratios of(const std::string& contender) const;  // zeros when it was not measured here
};

struct ReportTable {
  std::string suite;
  std::vector<std::string> contenders;  // ours first
  std::vector<ReportPoint> points;      // by workload, sizes, epilogue
};

// One table for each suite that has rows divided by `cublas`, `dense` before all others. Our levels
// of numerics beside `fast` are contenders of their own: "epifuse approx". Throws ArgumentError
// when `rows` is no list of result rows.
std::vector<ReportTable> report_tables(const nlohmann::json& rows);

// Geometric mean, the largest, and the number above 1, of one contender over another, at the points
// that have both; an empty `other` stands for the baseline.
struct Comparison {
  int num_points = 0, num_above_one = 0;
  double mean = 1, largest = 0;
  std::string largest_at;
};
Comparison compare(const ReportTable& table, double Ratios::*time, const std::string& contender,
                   const std::string& other = "");

}  // namespace epifuse::cli
