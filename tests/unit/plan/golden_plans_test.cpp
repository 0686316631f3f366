// Every graph of the golden tests keeps the invariants of plans, however it is planned.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "ir/text.h"
#include "passes/pipeline.h"
#include "plan_checks.h"

namespace epifuse::test {
namespace {

namespace fs = std::filesystem;

// The part of a golden file above the line `---`.
std::string input_of(const fs::path& path) {
  std::ifstream file(path);
  std::string text, line;
  while (std::getline(file, line) && line != "---") text += line + "\n";
  return text;
}

std::vector<fs::path> golden_files() {
  std::vector<fs::path> files;
  for (const char* folder : {"plan", "explain", "roundtrip"}) {
    const fs::path root = fs::path(EPIFUSE_SOURCE_DIR) / "tests/text" / folder;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (entry.path().extension() == ".test") files.push_back(entry.path());
    }
  }
  return files;
}

void check(const ir::Graph& graph, const CompileOptions& options) {
  const plan::Plan plan = plan::make_plan(graph, options);
  SCOPED_TRACE(plan::print(plan));
  check_invariants(plan);
  check_left_out(plan);
  check_invariants(split_all(plan));
  // Planning is deterministic, and a planned graph needs no further preparation.
  EXPECT_EQ(plan, plan::make_plan(graph, options));
  EXPECT_EQ(plan, plan::make_plan(plan.graph, options));
}

TEST(GoldenPlans, KeepInvariants) {
  int num_graphs = 0;
  for (const fs::path& path : golden_files()) {
    SCOPED_TRACE(path.string());
    const ir::Graph graph = ir::parse(input_of(path));
    if (graph.outputs.empty()) continue;
    ++num_graphs;
    for (Numerics numerics : {Numerics::fast, Numerics::exact, Numerics::approx}) {
      for (bool fuse : {true, false}) {
        check(graph, {numerics, fuse});
        check(passes::run_all(graph, numerics), {numerics, fuse});
      }
    }
  }
  EXPECT_GE(num_graphs, 80);
}

}  // namespace
}  // namespace epifuse::test
