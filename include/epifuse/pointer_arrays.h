// Many problems of one graph, each with sizes and tensors of its own: a grouped GEMM by pointers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace epifuse {

/// Where an input or output of every problem is. The arrays have an entry for each problem.
struct ProblemTensor {
  std::string name;                   ///< of an input or output of the graph
  const void* const* data = nullptr;  ///< the first elements
  /// From one row (step along the last dim but one) to the next, in elements; null: tensors are
  /// dense. Only of tensors of two dims or more for which the graph declares no strides. At least
  /// the length of a row (the last size): rows that fold onto each other are an ArgumentError where
  /// the host reads the arrays, and not looked for where the device does.
  const std::int64_t* row_strides = nullptr;
};

/// PointerArrays of one graph, in any number. Tensors of a problem have the shapes that the graph
/// declares at the problem's sizes; a size may be 0. Outputs of a problem share no memory with its
/// inputs (but as Program::run says) or with any tensor of another problem.
///
/// All arrays but `host_sizes` are where the target's device reads them: for a GPU in its memory,
/// or pinned. They are read when the work runs, not when it is queued: their contents may be
/// results of kernels before it, and may change from one replay of a CUDA graph to the next.
struct PointerArrays {
  std::int64_t count = 0;            ///< of problems; of a captured graph it is fixed
  std::vector<std::string> symbols;  ///< all size symbols of the graph, in any order
  /// [count, symbols.size()]: the sizes of each problem, in the order of `symbols`.
  const std::int64_t* sizes = nullptr;
  std::vector<ProblemTensor> tensors;                   ///< all inputs and outputs, in any order
  std::vector<std::pair<std::string, double>> scalars;  ///< run-time scalars, of all problems
  /// `sizes` once more, where the host can read them, if it knows them: the kernel is chosen by
  /// them. Null otherwise.
  const std::int64_t* host_sizes = nullptr;
};

}  // namespace epifuse
