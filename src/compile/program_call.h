// A program made ready for the calls of one form.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "backends/overlaps.h"

namespace epifuse {

// Forms that are remembered of a program: sizes, strides and alignments that its calls come with.
// The layers of a model share programs.
constexpr std::size_t kMostForms = 1024;

// The names of the tensors, and of the scalars, that a call of the plan brings, by number.
struct CallNames {
  explicit CallNames(const ir::Graph& graph);
  std::vector<std::string_view> tensors, scalars;
};

// Thread-safe. The executable outlives it.
class ProgramCall {
 public:
  // For calls of the form that the call of `bound` (of backends::bind) has.
  ProgramCall(const backends::Executable& executable, const codegen::Bound& bound);

  // Throws ArgumentError where an output shares memory with another tensor.
  void run(const codegen::CallValues& values, Stream stream) const;

 private:
  const plan::Plan& plan_;
  const backends::CallForm form_;
  const backends::OverlapCheck overlaps_;
  const std::shared_ptr<const backends::PreparedCall> prepared_;
};

}  // namespace epifuse
