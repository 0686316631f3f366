// What the times of all candidates say of the one that a family's model chooses.
#pragma once

#include <string>
#include <vector>

#include "bench_points.h"

namespace epifuse::cli {

// Microseconds, launch by launch and in back-to-back blocks; 0: not measured.
struct RunTimes {
  double us = 0, sustained_us = 0;
};

struct CandidateTimes {
  std::string config;
  double expected_us = 0;  // by the family's model
  bool chosen = false;     // by it
  std::string wrong;       // what is, of its result; such a candidate is not compared
  RunTimes times;
};

struct PointTimes {
  Point point;
  RunTimes cublas, split;  // the bare vendor GEMM; the same and a tail kernel
  double rel_error = 0;
  std::vector<CandidateTimes> candidates;
};

// Rows of contender `candidate` for each config, `cublas+tail` and `cublas` for the vendor's.
std::vector<ResultRow> rows_of(const PointTimes& point);

// How far the model's choice is behind the best candidate, as a fraction of that one's time, and
// its time over that of cuBLAS. 0: not measured.
struct Outcome {
  std::string point, chosen, best, best_sustained;
  double loss = 0, loss_sustained = 0, ratio = 0, ratio_sustained = 0;
};

// InternalError when no candidate is the chosen one.
Outcome judge(const PointTimes& point);

// The table of one point, and one line of its outcome.
std::string describe(const PointTimes& point, const Outcome& outcome);

// The geometric means over all points, and the points that lose much.
std::string describe(const std::vector<Outcome>& outcomes);

}  // namespace epifuse::cli
