// How much is measured of steps whose choice is not known yet.
#pragma once

#include <cstddef>

#include "backends/cuda/choose/ways.h"
#include "epifuse/program.h"

namespace epifuse::cuda {

struct QuickRules {
  std::size_t most_candidates = 6;  // by the model, beside the vendor's product with a tail
  double budget_us = 50e3;          // of measuring one step
  double part_of_memory = 0.1;      // of what is free, at most
  bool is_strict = true;            // setting up counts; what does not fit is not measured
  bool compiles = false;            // kernels only to measure them, where a compiler is
  bool again = false;               // measures steps whose choice is known, too
  bool compares = false;            // drops ways whose results are not those of the usual one
};

constexpr QuickRules kAllCandidates{
    .most_candidates = kAllWays, .budget_us = 1e6, .is_strict = false, .compiles = true};

// What the first use of a form, or preparing it, goes by. On a device without a profile the model
// is farther off, so that more candidates are measured, and compiled for it in either mode; few
// threads compile fewer. Where sizes are no reason to compile, only `full` does.
QuickRules quick_rules(Tune tune, const targets::DeviceProfile& device, const LateKernels& late,
                       int num_threads);

// Candidates of each step that are compiled ahead only to be measured where the tune mode asks for
// few: as many as half of the threads take at once beside the kernel and a tail. The other half is
// left to other kernels, and to who compiles beside.
std::size_t num_to_measure(Tune tune, int num_threads, std::size_t num_steps);

}  // namespace epifuse::cuda
