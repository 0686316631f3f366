// What `epifuse bench` was asked to do.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "results.h"

namespace epifuse::cli {

struct BenchOptions {
  std::string suite = "dense", filter, results, commit, report;
  std::vector<std::string> numerics{"fast"};
  std::optional<int> rounds, blocks;        // empty: what the mode takes
  std::optional<double> sustained_seconds;  // of one block; 0: none
  bool sweep = false, tune = false, json = false;
};

// What all rows of a run on the current device share. Throws UnavailableError without a GPU.
ResultContext result_context(const BenchOptions& options);

}  // namespace epifuse::cli
