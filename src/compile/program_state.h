// What a Program holds.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "base/recent_table.h"
#include "compile/program_call.h"
#include "epifuse/program.h"

namespace epifuse {

// What calls of one form of Program::run share.
struct RecentForm {
  // The form of these tensors. Throws ArgumentError as backends::bind does.
  RecentForm(const backends::Executable& executable, std::span<const Binding> tensors_,
             DeviceKind device);
  // On tensors of the form, in the same order.
  void run(std::span<const Binding> bindings, Stream stream) const;

  std::vector<Binding> tensors;
  ProgramCall call;
  std::vector<std::size_t> tensor_places, scalar_places;  // in `tensors`, by number
};

struct Program::State {
  Target target;
  CompileOptions options;
  ir::Graph source_graph;  // as the user gave it, before the passes
  std::unique_ptr<backends::Executable> executable;
  mutable RecentTable<RecentForm> recent{kMostForms};
};

}  // namespace epifuse
