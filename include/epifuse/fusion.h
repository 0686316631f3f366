// What of a larger program becomes kernels: for frameworks that run the rest themselves.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "epifuse/graph.h"
#include "epifuse/program.h"

namespace epifuse {

/// What a framework knows of its program beyond the graph.
struct FusionRequest {
  /// Values that one kernel computes together or not at all: the parts of one op of the framework.
  std::vector<std::vector<std::string>> whole;
  /// Inputs of the graph that the framework computes from values of the graph, with those values: a
  /// kernel cannot both compute a value and wait for what is made of it.
  std::map<std::string, std::vector<std::string>, std::less<>> after;
  /// Values that the framework needs in memory whoever computes them: its results, operands of what
  /// it does not fuse elementwise work into. Of others it reads what the kernels store.
  std::set<std::string, std::less<>> in_memory;
  /// Inputs that the framework computes where they are read, so that they are in memory only if a
  /// kernel reads them. No kernel reads one where that moves more bytes than not to.
  std::set<std::string, std::less<>> unstored;
  /// Whether to leave to the framework what it is known to run faster itself, as PyTorch does on
  /// CPUs.
  bool only_faster = false;
  /// Whether the framework sums columns of a large tensor while it sums its rows, as Inductor's GPU
  /// kernels do. No kernel reads a tensor for such sums alone.
  bool sums_both_ways = false;
  /// What symbols of sizes are likely to be, from 0 to kMaxElements; without, a product that has
  /// some is fused.
  Sizes likely_sizes;
};

/// A tensor that goes between the framework and a kernel.
struct FusionTensor {
  std::string value;                      ///< of the graph
  std::optional<std::vector<Dim>> shape;  ///< where the kernel sees it in another, row-major
  /// Of a result whose dims the kernel has in another order: those, as the framework has them.
  std::vector<int> order = {};
};

/// A product and the work around it, or several products of one operand: one kernel.
struct FusedKernel {
  std::string name;      ///< an identifier: "matmul_bias_gelu_erf"
  std::string epilogue;  ///< its ops, in order: "bias+gelu_erf"
  /// What to compile: no name of the framework's is in it, nor its strides, so that the same work
  /// is the same text. Inputs are declared row-major, whatever their tensors will be.
  Graph graph;
  std::vector<FusionTensor> inputs, outputs;  ///< in order of the graph's
  std::vector<std::string> values;            ///< of the framework's graph, computed inside
  /// Of several products: those that have work of their own, as kernels by themselves. The others'
  /// are left to the framework where this one is not used.
  std::vector<FusedKernel> apart = {};
};

/// A value that depends on a product and that no kernel computes.
struct LeftOutValue {
  std::string value, code, why;  ///< a stable code, and one sentence
};

struct Fusions {
  std::vector<FusedKernel> kernels;  ///< in an order in which they can run
  std::vector<LeftOutValue> left_out;
};

/// The kernels that `target` fuses of `graph`, whose outputs are all values that the framework
/// reads. Only what pays: a product with work around it, of which no more is stored than without
/// it. Throws ArgumentError when the request names values or symbols that the graph has not.
Fusions find_fusions(const Graph& graph, const Target& target, const CompileOptions& options = {},
                     const FusionRequest& request = {});

}  // namespace epifuse
