// What a Program holds.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "backends/backend.h"
#include "epifuse/program.h"

namespace epifuse {

// The last sets of tensors a program ran on, so that a repeated call binds nothing anew.
class RecentBindings {
 public:
  // The bound form of these tensors: a remembered one when every pointer, shape, stride and scalar
  // is the same. Thread-safe. Throws ArgumentError as backends::bind does.
  std::shared_ptr<const codegen::Bound> find_or_bind(const plan::Plan& plan,
                                                     std::span<const Binding> tensors,
                                                     DeviceKind device);

 private:
  struct Entry {
    std::vector<Binding> tensors;
    std::shared_ptr<const codegen::Bound> bound;
  };
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, Entry> entries_;  // by hash
};

struct Program::State {
  Target target;
  CompileOptions options;
  ir::Graph source_graph;  // as the user gave it, before the passes
  std::unique_ptr<backends::Executable> executable;
  mutable RecentBindings recent;
};

}  // namespace epifuse
