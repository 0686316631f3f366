#include "tune_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "backends/pointer_arrays.h"
#include "base/measure.h"
#include "check/verify_program.h"
#include "compile/program_state.h"
#include "options.h"
#include "tensors.h"
#include "tune/size_search.h"
#include "tune/store.h"

namespace epifuse::cli {
namespace {

using Steps = std::vector<backends::MeasuredStep>;

// Of measuring one step at one size: enough for a dozen rounds of all candidates.
constexpr double kMostSeconds = 1.0, kFewestSeconds = 0.05;
constexpr std::int64_t kCheckedElements = 1 << 14;

class GraphTuner {
 public:
  GraphTuner(const TuneJob& job, const Target& target, const CompileOptions& options,
             double seconds, const std::function<void(const std::string&)>& say)
      : job_(job),
        program_(compile(job.graph, target, without_tuning(options))),
        search_(sizes_of(job)),
        seconds_(seconds),
        say_(say),
        steps_(search_.sizes().size()) {}

  TuneResult run() {
    while (const auto at = next()) {
      if (search_.num_measured() > 0 && seconds_since(start_) > seconds_) break;
      measure(*at);
    }
    result_.num_measured = search_.num_measured();
    result_.is_complete = !next();
    fill_between();
    return std::move(result_);
  }

 private:
  static CompileOptions without_tuning(CompileOptions options) {
    options.tune = Tune::off;
    return options;
  }

  static std::vector<std::int64_t> sizes_of(const TuneJob& job) {
    if (!job.range) return {1};  // of no symbol
    const std::vector<std::int64_t>& sizes = job.range->sizes;
    return job.range->is_range ? tune::class_sizes(sizes.front(), sizes.back()) : sizes;
  }

  // Of a list each is measured, of a range those between which winners change.
  std::optional<std::size_t> next() const {
    if (job_.range && job_.range->is_range) return search_.next();
    for (std::size_t i = search_.sizes().size(); i-- > 0;) {
      if (search_.source_of(i) != i) return i;
    }
    return std::nullopt;
  }

  std::size_t num_left() const {
    if (job_.range && job_.range->is_range) return search_.num_left();
    return search_.sizes().size() - search_.num_measured();
  }

  Sizes sizes_at(std::size_t at) const {
    Sizes sizes = job_.sizes;
    if (job_.range) sizes[job_.range->symbol] = search_.sizes()[at];
    return complete_sizes(job_.graph, sizes);
  }

  std::string text_at(std::size_t at) const {
    std::vector<std::string> words;
    for (const auto& [symbol, size] : sizes_at(at)) {
      words.push_back(fmt::format("{}={}", symbol, size));
    }
    return fmt::format("{}", fmt::join(words, " "));
  }

  const backends::Executable& executable() const { return *program_.state().executable; }

  codegen::Bound bound_at(std::size_t at) const {
    return backends::bind_stand_ins(executable().plan(), sizes_at(at), program_.target().kind);
  }

  void measure(std::size_t at) {
    const double left = std::max(0.0, seconds_ - seconds_since(start_));
    const double share = left / static_cast<double>(std::max<std::size_t>(num_left(), 1));
    const codegen::Bound bound = bound_at(at);
    Steps steps = executable().measure(bound, std::clamp(share / 2, kFewestSeconds, kMostSeconds));
    executable().keep(bound, steps);
    std::string winner;
    for (const backends::MeasuredStep& each : steps) winner += each.choice + "\n";
    if (checked_.insert(winner).second) check(at, steps);
    search_.add(at, std::move(winner));
    ++result_.num_kept;
    tell(at, steps);
    steps_[at] = std::move(steps);
  }

  // By float64, on random tensors. Replaces the choice where the result is wrong.
  void check(std::size_t at, Steps& steps) {
    HostTensors host(job_.graph.ir(), sizes_at(at), {});
    TargetTensors tensors(host, program_.target());
    tensors.poison_outputs();
    program_.run(tensors.bindings());
    tensors.fetch_outputs();
    const auto verdicts =
        verify_program(program_, host.bindings(), tensors.bindings(), kCheckedElements, 1);
    for (const reference::Verdict& verdict : verdicts) {
      if (verdict.ok()) continue;
      result_.wrong.push_back(fmt::format("{} {}: {} is wrong: {}", job_.file, text_at(at),
                                          verdict.output, verdict.first_failure));
      for (backends::MeasuredStep& step : steps) step.choice = tune::kProductAndTail;
      executable().keep(bound_at(at), steps);
      return;
    }
  }

  void tell(std::size_t at, const Steps& steps) {
    const double spent = seconds_since(start_);
    const std::size_t done = search_.num_measured(), left = num_left();
    const double per_size = spent / static_cast<double>(done);
    say_(fmt::format(
        "{} {}: {} of about {} sizes, {:.0f} s of {:.0f}, about {:.0f} s left", job_.file,
        text_at(at), done, done + left, spent, seconds_,
        std::min(std::max(seconds_ - spent, 0.0), per_size * static_cast<double>(left))));
    for (const backends::MeasuredStep& step : steps) {
      say_(fmt::format("  {} runs by {}: {}", step.what, step.choice, step.measured));
      for (const std::string& dropped : step.dropped) {
        result_.wrong.push_back(fmt::format("{} {}: the result of {} is not that of the others",
                                            job_.file, text_at(at), dropped));
      }
      nlohmann::json ways = nlohmann::json::object();
      for (const auto& way : step.ways) ways[way.name] = way.us;
      result_.rows.push_back({{"file", job_.file},
                              {"sizes", text_at(at)},
                              {"step", step.what},
                              {"choice", step.choice},
                              {"measured", step.measured},
                              {"ways", std::move(ways)},
                              {"dropped", step.dropped}});
    }
  }

  // Sizes between two that run alike run so too.
  void fill_between() {
    for (std::size_t at = 0; at < search_.sizes().size(); ++at) {
      const auto source = search_.source_of(at);
      if (!source || *source == at || !job_.range->is_range) continue;
      Steps steps = steps_[*source];
      for (backends::MeasuredStep& step : steps) {
        step.measured = fmt::format("at {}={}: {}", job_.range->symbol, search_.sizes()[*source],
                                    step.measured);
      }
      executable().keep(bound_at(at), steps);
      ++result_.num_kept;
    }
  }

  const TuneJob& job_;
  const Program program_;
  tune::SizeSearch search_;
  const double seconds_;
  const std::function<void(const std::string&)>& say_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<Steps> steps_;       // by size
  std::set<std::string> checked_;  // winners
  TuneResult result_;
};

}  // namespace

TuneResult tune_graph(const TuneJob& job, const Target& target, const CompileOptions& options,
                      double seconds, const std::function<void(const std::string&)>& say) {
  return GraphTuner(job, target, options, seconds, say).run();
}

}  // namespace epifuse::cli
