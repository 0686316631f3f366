#include "cli/report.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "cli/report_summary.h"
#include "epifuse/error.h"

namespace epifuse::cli {
namespace {

const std::filesystem::path kRoot = EPIFUSE_SOURCE_DIR;

TEST(Report, ThePageIsMadeFromTheRows) {
  const auto rows = nlohmann::json::parse(read_file(kRoot / "bench/results/h200.json").value());
  EXPECT_EQ(read_file(kRoot / "docs/performance.md"),
            report_markdown(rows, "../bench/results/h200.json", "performance.svg"))
      << "run: epifuse bench --report docs/performance.md";
}

TEST(Report, TheReadmeShowsTheSummaryOfTheRows) {
  const auto rows = nlohmann::json::parse(read_file(kRoot / "bench/results/h200.json").value());
  const std::string summary = report_summary(rows);
  ASSERT_NE(summary, "");
  EXPECT_NE(read_file(kRoot / "README.md").value().find(summary), std::string::npos)
      << "expected in README.md:\n"
      << summary;
}

TEST(Report, ModelsAndSuitesThatWereNotMeasuredAreNotInTheSummary) {
  const auto row = [](const char* suite, const char* contender, double ratio) {
    return nlohmann::json{{"suite", suite},        {"contender", contender},
                          {"workload", "a_model"}, {"baseline", "inductor"},
                          {"ratio", ratio},        {"ratio_sustained", 0.0}};
  };
  EXPECT_EQ(report_summary(nlohmann::json::array()), "");
  EXPECT_EQ(report_summary(
                nlohmann::json::array({row("torch", "epifuse", 0.0), row("torch", "eager", 2.0)})),
            "");
  EXPECT_EQ(report_summary(nlohmann::json::array({row("torch", "epifuse", 0.5)})),
            "| what | instead of | time | back to back | points slower |\n|---|---|---|---|---|\n"
            "| model `a_model` | `torch.compile` | 0.50 | - |  |\n");
  auto by_graphs = row("torch", "epifuse-cudagraphs", 0.75);
  by_graphs["baseline"] = "inductor-cudagraphs";
  EXPECT_EQ(report_summary(nlohmann::json::array({by_graphs})),
            "| what | instead of | time | back to back | points slower |\n|---|---|---|---|---|\n"
            "| model `a_model`, CUDA graphs | `torch.compile` with CUDA graphs | 0.75 | - |  |\n");
}

TEST(Report, LinksAreSeenFromThePage) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "epifuse_report";
  std::filesystem::create_directories(folder / "docs");
  std::filesystem::create_directories(folder / "rows");
  write_file_atomically(folder / "rows/h200.json", "[]");
  write_report(folder / "rows/h200.json", folder / "docs/page.md");
  EXPECT_NE(read_file(folder / "docs/page.md").value().find("(../rows/h200.json)"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / "docs/page.svg"));  // nothing to plot
  std::filesystem::remove_all(folder);
}

TEST(Report, WhatIsNoListOfRowsIsRefused) {
  EXPECT_THROW(report_tables(nlohmann::json::parse(R"([{"suite": "dense"}])")), ArgumentError);
  EXPECT_THROW(report_markdown(nlohmann::json::parse("[3]"), "", ""), ArgumentError);
  EXPECT_THROW(write_report("no/such/rows.json", "page.md"), ArgumentError);
  EXPECT_THROW(write_report("rows.json", "rows.json"), ArgumentError);  // would be lost
}

TEST(Report, ComparisonsTakePointsThatBothHave) {
  ReportTable table{"dense", {"epifuse", "eager"}, {}};
  table.points.push_back({"up", "bias", "", 1, 2, 3, {{"epifuse", {0.8, 0}}, {"eager", {1.6, 0}}}});
  table.points.push_back({"down", "bias", "", 1, 2, 3, {{"epifuse", {1.25, 1.1}}}});
  const Comparison baseline = compare(table, &Ratios::interleaved, "epifuse");
  EXPECT_EQ(baseline.num_points, 2);
  EXPECT_DOUBLE_EQ(baseline.mean, 1.0);
  EXPECT_EQ(baseline.num_above_one, 1);
  EXPECT_EQ(baseline.largest_at, "down 1 x 2 x 3, bias");
  const Comparison eager = compare(table, &Ratios::interleaved, "epifuse", "eager");
  EXPECT_EQ(eager.num_points, 1);
  EXPECT_DOUBLE_EQ(eager.mean, 0.5);
  EXPECT_EQ(compare(table, &Ratios::sustained, "eager").num_points, 0);
}

}  // namespace
}  // namespace epifuse::cli
