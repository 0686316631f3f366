// The definition of right: a float64 interpreter of the graph, and how far a result may be from it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "epifuse/program.h"
#include "ir/graph.h"

namespace epifuse::reference {

// A value and the bounds that a correct float32 computation of it stays within (docs/numerics.md).
struct Interval {
  double low, value, high;
};

struct Options {
  Numerics numerics = Numerics::fast;
  // Names of values that the program certainly rounds in memory under `fast`
  // (plan::rounded_values); ignored under `exact`, where all are.
  std::vector<std::string> rounded;
  // The same for values that are read rounded from memory in one place and unrounded in another.
  std::vector<std::string> maybe_rounded;
  // Whether float32 operands of matrix products may be rounded, or cut off, to TF32.
  bool tf32 = false;
  // How many products of fp8 operands tensor cores add up at once, with few bits; 0: in float32.
  int short_step = 0;
  // Whether products of i8 may be added up in float32, as where no kernel takes them.
  bool i8_in_float32 = false;
  // Elements checked per output: all of them up to this many, else whole rows picked by `seed`.
  std::int64_t max_elements = std::int64_t{1} << 22;
  std::uint64_t seed = 0;
};

// Evaluates every element of every output in float64, in order of the outputs, before they are
// rounded for the store. Tensors are host memory; sizes are read off them, also of outputs that are
// bound.
std::vector<std::vector<double>> evaluate(const ir::Graph& graph, std::span<const Binding> tensors);
// The same with bounds.
std::vector<std::vector<Interval>> bounds(const ir::Graph& graph, std::span<const Binding> tensors,
                                          const Options& options);

struct Verdict {
  std::string output;
  std::int64_t checked = 0, failed = 0;
  double max_error = 0;       // largest |result - reference|
  double max_ratio = 0;       // largest error / allowed; <= 1 is right
  double relative_error = 0;  // ||result - reference|| / ||reference|| over finite elements
  std::string first_failure;  // "y[3, 17]: got 1.25, expected 1.5 within [1.49, 1.51]"
  bool empty = false;         // the output has no elements: nothing can be wrong
  bool ok() const { return failed == 0 && (checked > 0 || empty); }
};

// Compares host outputs (bound by name among `tensors`) with the reference of `graph`.
std::vector<Verdict> verify(const ir::Graph& graph, std::span<const Binding> tensors,
                            const Options& options);

}  // namespace epifuse::reference
