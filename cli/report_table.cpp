#include "report_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <tuple>

#include "base/measure.h"
#include "epifuse/error.h"

namespace epifuse::cli {
namespace {

using nlohmann::json;

// Columns in this order; contenders of other names come last.
constexpr std::array<const char*, 6> kOrder{
    "epifuse",           "epifuse exact",         "epifuse approx",
    "cublaslt-epilogue", "inductor-max-autotune", "eager"};

constexpr std::array<const char*, 4> kSuites{"dense", "square", "small", "gated"};

std::size_t rank(std::span<const char* const> order, const std::string& name) {
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), name) - order.begin());
}

double number(const json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? found->get<double>() : 0;
}

std::string contender_of(const json& row) {
  const auto contender = row.at("contender").get<std::string>();
  const auto numerics = row.at("numerics").get<std::string>();
  return contender == "epifuse" && numerics != "fast" ? contender + " " + numerics : contender;
}

ReportTable& table_of(std::vector<ReportTable>& tables, const std::string& suite) {
  for (ReportTable& table : tables) {
    if (table.suite == suite) return table;
  }
  return tables.emplace_back(ReportTable{suite, {}, {}});
}

ReportPoint& point_of(ReportTable& table, const json& row) {
  ReportPoint key;
  row.at("workload").get_to(key.workload);
  row.at("epilogue").get_to(key.epilogue);
  row.at("m").get_to(key.m);
  row.at("n").get_to(key.n);
  row.at("k").get_to(key.k);
  for (ReportPoint& point : table.points) {
    if (point.workload == key.workload && point.epilogue == key.epilogue && point.m == key.m &&
        point.n == key.n && point.k == key.k) {
      return point;
    }
  }
  return table.points.emplace_back(std::move(key));
}

void add_row(std::vector<ReportTable>& tables, const json& row) {
  if (row.at("baseline") != "cublas") return;
  ReportTable& table = table_of(tables, row.at("suite").get<std::string>());
  ReportPoint& point = point_of(table, row);
  const std::string contender = contender_of(row);
  point.contenders[contender] = {number(row, "ratio"), number(row, "ratio_sustained")};
  if (contender == "epifuse") point.config = row.value("config", "");
  if (std::find(table.contenders.begin(), table.contenders.end(), contender) ==
      table.contenders.end()) {
    table.contenders.push_back(contender);
  }
}

}  // namespace

std::string ReportPoint::size() const { return fmt::format("{} x {} x {}", m, n, k); }

Ratios ReportPoint::of(const std::string& contender) const {
  const auto found = contenders.find(contender);
  return found == contenders.end() ? Ratios{} : found->second;
}

std::vector<ReportTable> report_tables(const json& rows) {
  std::vector<ReportTable> tables;
  try {
    for (const json& row : rows) add_row(tables, row);
  } catch (const json::exception& error) {
    throw ArgumentError(fmt::format("expected a list of result rows: {}", error.what()));
  }
  std::ranges::stable_sort(tables, {}, [](const auto& each) { return rank(kSuites, each.suite); });
  for (ReportTable& table : tables) {
    std::ranges::stable_sort(table.contenders, {},
                             [](const auto& each) { return rank(kOrder, each); });
    std::ranges::stable_sort(table.points, {}, [](const ReportPoint& point) {
      return std::tie(point.workload, point.n, point.k, point.m, point.epilogue);
    });
  }
  return tables;
}

Comparison compare(const ReportTable& table, double Ratios::*time, const std::string& contender,
                   const std::string& other) {
  Comparison out;
  std::vector<double> all;
  for (const ReportPoint& point : table.points) {
    const double x = point.of(contender).*time, y = other.empty() ? 1.0 : point.of(other).*time;
    if (x <= 0 || y <= 0) continue;
    all.push_back(x / y);
    out.num_above_one += x > y;
    if (x / y <= out.largest) continue;
    out.largest = x / y;
    out.largest_at = fmt::format("{} {}, {}", point.workload, point.size(), point.epilogue);
  }
  out.num_points = static_cast<int>(all.size());
  out.mean = geometric_mean(all);
  return out;
}

}  // namespace epifuse::cli
