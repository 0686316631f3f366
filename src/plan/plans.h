// Plans of graphs, each made once.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "plan/plan.h"

namespace epifuse::plan {

// The graph after the passes, planned; verified.
Plan plan_of(const ir::Graph& graph, const CompileOptions& options,
             const targets::StepLimits& limits);

// What one who looks for kernels has planned, one who compiles them finds. Thread-safe.
class Plans {
 public:
  static constexpr std::size_t kMost = 1024;  // that are kept; the oldest goes first

  // plan_of, made where no graph of the same text had it with such options and limits.
  std::shared_ptr<const Plan> of(const ir::Graph& graph, const CompileOptions& options,
                                 const targets::StepLimits& limits);
  std::int64_t num_made() const;

 private:
  struct Entry {
    std::once_flag once;
    std::shared_ptr<const Plan> plan;
  };
  std::shared_ptr<Entry> find_or_add(const std::string& key);

  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Entry>> entries_;
  std::deque<std::string> oldest_first_;
  std::int64_t num_made_ = 0;
};

}  // namespace epifuse::plan
