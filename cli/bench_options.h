// What `epifuse bench` was asked to do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench_points.h"
#include "results.h"
#include "targets/targets.h"

namespace epifuse::cli {

struct BenchOptions {
  std::string suite = "dense", family, results, commit, report;
  std::vector<std::string> filters;  // a point has one of them in its text; empty: all points
  std::vector<std::string> numerics{"fast"};
  std::optional<int> rounds, blocks;        // empty: what the mode takes
  std::optional<double> sustained_seconds;  // of one block; 0: none
  bool sweep = false, tune = false, json = false;
  bool list = false;       // names the points, and measures nothing
  std::uint64_t seed = 1;  // of suite random, and how many points it has
  int count = 200;
};

// The points of the suite that pass the filter. Throws ArgumentError when there are none.
std::vector<Point> points_of(const BenchOptions& options);
// The target of the device here. Throws UnavailableError where epifuse has no kernels for it.
const targets::TargetInfo& require_target();

// What all rows of a run on the current device share. Throws UnavailableError without a GPU.
ResultContext result_context(const BenchOptions& options);

}  // namespace epifuse::cli
