// From a graph to its plan, through the passes; and the plans that are kept.
#include "plan/plans.h"

#include <fmt/format.h>

#include "ir/text.h"
#include "passes/pipeline.h"

namespace epifuse::plan {
namespace {

// The bindings name every limit: one more does not compile until it is in the text.
std::string print(const targets::OperandLimits& limits) {
  const auto& [parameters, scalars, rows, cols, tiles, loads, stores] = limits;
  return fmt::format("{} {} {} {} {} {} {}", parameters, scalars, rows, cols, tiles, loads, stores);
}

std::string print(const targets::StepLimits& limits) {
  const auto& [gemm, tail, reduces_rows_of_groups] = limits;
  return fmt::format("gemm={} tail={} rows_of_groups={}", print(gemm), print(tail),
                     reduces_rows_of_groups);
}

}  // namespace

Plan plan_of(const ir::Graph& graph, const CompileOptions& options,
             const targets::StepLimits& limits) {
  Plan plan = make_plan(passes::run_all(graph, options.numerics), options, limits);
  verify(plan);
  return plan;
}

std::shared_ptr<Plans::Entry> Plans::find_or_add(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  const auto [place, is_new] = entries_.try_emplace(key);
  if (!is_new) return place->second;
  const auto entry = place->second = std::make_shared<Entry>();
  oldest_first_.push_back(key);
  if (oldest_first_.size() > kMost) {
    entries_.erase(oldest_first_.front());
    oldest_first_.pop_front();
  }
  return entry;
}

std::shared_ptr<const Plan> Plans::of(const ir::Graph& graph, const CompileOptions& options,
                                      const targets::StepLimits& limits) {
  const std::shared_ptr<Entry> entry =
      find_or_add(fmt::format("{} fuse={} tf32={} {}\n{}", name(options.numerics), options.fuse,
                              options.allow_tf32, print(limits), ir::print(graph)));
  std::call_once(entry->once, [&] {
    entry->plan = std::make_shared<const Plan>(plan_of(graph, options, limits));
    const std::scoped_lock lock(mutex_);
    ++num_made_;
  });
  return entry->plan;
}

std::int64_t Plans::num_made() const {
  const std::scoped_lock lock(mutex_);
  return num_made_;
}

}  // namespace epifuse::plan
