// Runs the corpus on a target and checks every result.
#pragma once

#include <string>
#include <vector>

#include "tests/common/corpus.h"
#include "tests/common/memory.h"
#include "tests/common/time_limit.h"

namespace epifuse::testing {

// What all runs of one graph at one level of numerics gave.
struct CorpusRow {
  std::string graph;
  Numerics numerics = Numerics::fast;
  int num_steps = 0;
  int num_runs = 0, num_failed = 0;
  std::int64_t num_elements = 0;
  double max_ratio = 0;       // error over what is allowed
  double relative_error = 0;  // the worst of a run
  std::string first_failure;
};

// Every size of the graph, once plain and once with special values where it asks for them; `quick`
// takes the first two sizes. The limit is for the compilation and for each run.
CorpusRow run_case(const CorpusCase& which, const Target& target, const CompileOptions& options,
                   Memory& memory, bool quick, TimeLimit& limit);

std::string print_table(const std::vector<CorpusRow>& rows);

// A tier's main(): runs everything, prints progress, the table, and "N passed, M failed" (runs).
// Arguments: [--quick] [--only WORD] [--part I/N] [--family NAME] [--limit SECONDS] [--table FILE]
// FOLDER, with --part every N-th graph from the I-th on, with --family by that kernel family. A
// run that takes longer than --limit ends the process and is named: its kernel may come to no
// end. Returns the process's exit code.
int run_tier(const Target& target, Memory& memory, int argc, char** argv);

}  // namespace epifuse::testing
