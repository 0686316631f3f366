#include "cli/results.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "epifuse/error.h"

namespace epifuse::cli {
namespace {

ResultRow row(const char* workload, const char* contender, const char* config, double us) {
  ResultRow out{"dense", workload, 1, 2, 3};
  out.contender = contender;
  out.config = config;
  out.us = us;
  return out;
}

// Merges rows into the file and reads back "workload contender config us" of each of its rows.
std::vector<std::string> merge(const std::filesystem::path& path,
                               const std::vector<ResultRow>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const ResultRow& each : rows) list.push_back(to_json(each, {}));
  merge_results(path, list);
  std::vector<std::string> out;
  for (const auto& each : nlohmann::json::parse(read_file(path).value())) {
    out.push_back(each.at("workload").get<std::string>() + " " +
                  each.at("contender").get<std::string>() + " " + each.value("config", "-") + " " +
                  std::to_string(each.at("us").get<int>()));
  }
  return out;
}

class Results : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }
  std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("epifuse_") + testing::UnitTest::GetInstance()->current_test_info()->name() +
       ".json");
};

using Texts = std::vector<std::string>;

TEST_F(Results, ARowReplacesTheOneOfItsPointAndContender) {
  merge(path_, {row("up", "epifuse", "a", 1), row("down", "epifuse", "a", 2)});
  EXPECT_EQ(merge(path_, {row("up", "epifuse", "b", 3), row("up", "eager", "", 4)}),
            (Texts{"up epifuse b 3", "down epifuse a 2", "up eager - 4"}));
}

TEST_F(Results, CandidatesOfAPointReplaceAllFormerOnes) {
  merge(path_, {row("up", "candidate", "a", 1), row("up", "candidate", "b", 2),
                row("down", "candidate", "a", 3)});
  EXPECT_EQ(merge(path_, {row("up", "candidate", "b", 4), row("up", "candidate", "c", 5)}),
            (Texts{"up candidate b 4", "up candidate c 5", "down candidate a 3"}));
}

TEST_F(Results, AFileOfSomethingElseIsLeftAlone) {
  check_results(path_);  // there is none yet
  for (const char* text : {"{}", "null", "", "[1]", "[{}, []]", "[[]]"}) {
    write_file_atomically(path_, text);
    EXPECT_THROW(check_results(path_), ArgumentError) << text;
    EXPECT_THROW(merge_results(path_, {to_json(row("up", "epifuse", "a", 1), {})}), ArgumentError)
        << text;
    EXPECT_EQ(read_file(path_), text);
  }
}

}  // namespace
}  // namespace epifuse::cli
