// Runs all sizes of a corpus graph as problems of one call, and checks every result.
#pragma once

#include <string>
#include <vector>

#include "tests/common/corpus.h"
#include "tests/common/memory.h"

namespace epifuse::testing {

// What the problem of these sizes gave: no failure where it was right.
struct ProblemOutcome {
  Sizes sizes;
  std::string failure;
};

// None of graphs whose tensors have strides that problems cannot have.
std::vector<ProblemOutcome> run_as_pointer_arrays(const CorpusCase& which,
                                                  const std::vector<Sizes>& all,
                                                  const Program& program, Memory& memory);

}  // namespace epifuse::testing
