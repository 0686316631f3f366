// What `epifuse run` says of a graph: as text, as a line of a table, as JSON.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/reference/evaluate.h"
#include "epifuse/program.h"
#include "timing.h"

namespace epifuse::cli {

struct RunReport {
  std::string file, graph, target, numerics;
  Sizes sizes;
  int num_kernels = 0, num_left_out = 0;
  std::vector<std::string> how;     // a kernel each, as chosen for these tensors
  std::vector<std::string> tuned;   // what was measured to be best, a line each
  std::vector<std::string> splits;  // why a fused kernel could not run on these tensors
  double compile_seconds = 0;
  std::vector<reference::Verdict> verdicts;
  Comparison time;  // with one pass per op; no rounds: not timed
  bool ok() const {
    return std::all_of(verdicts.begin(), verdicts.end(), [](const auto& v) { return v.ok(); });
  }
};

void print_report(const RunReport& report);

// One line a graph, for runs of several.
void print_table(const std::vector<RunReport>& reports);

nlohmann::json to_json(const RunReport& report);

}  // namespace epifuse::cli
