// Measures one graph at many sizes and keeps what is fastest.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "epifuse/program.h"
#include "size_ranges.h"

namespace epifuse::cli {

// What to measure.
struct TuneJob {
  std::string file;
  Graph graph;
  Sizes sizes;                     // of the symbols that have one
  std::optional<SizeRange> range;  // of another
};

struct TuneResult {
  nlohmann::json rows = nlohmann::json::array();  // a size and a step each
  std::vector<std::string> wrong;                 // what a check found, a sentence each
  std::size_t num_measured = 0, num_kept = 0;     // of sizes; kept where there is a choice
  bool is_complete = false;                       // budget and memory were enough
};

// For about so many seconds; the first size is measured in any case. Each size is said on `say`
// when it is done; those that take more memory than is free are left out, and said too. What wins
// is checked against float64 at the first size where it does and that the host can hold; a wrong
// kernel is replaced by product and tail at all sizes. Throws ArgumentError where no choice can be
// kept.
TuneResult tune_graph(const TuneJob& job, const Target& target, const CompileOptions& options,
                      double seconds, const std::function<void(const std::string&)>& say);

}  // namespace epifuse::cli
