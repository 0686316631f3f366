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
#include "epifuse/error.h"
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

// Sizes that are searched together, and what was measured at each.
struct Search {
  tune::SizeSearch sizes;
  std::vector<Steps> steps = {};
};

struct Place {
  std::size_t search, at;
};

class GraphTuner {
 public:
  GraphTuner(const TuneJob& job, const Target& target, const CompileOptions& options,
             double seconds, const std::function<void(const std::string&)>& say)
      : job_(job),
        program_(compile(job.graph, target, without_tuning(options))),
        searches_(all_searches()),
        seconds_(seconds),
        say_(say) {}

  TuneResult run() {
    while (const auto place = next()) {
      if (num_measured() > 0 && seconds_since(start_) > seconds_) break;
      try {
        measure(*place);
      } catch (const backends::NotEnoughMemory& error) {
        if (num_measured() == 0 && place->at == 0) throw;
        if (!leave_out(*place, error.what())) break;
      }
    }
    tell_left_out();
    result_.num_measured = num_measured();
    result_.is_complete = !next();
    fill_between();
    return std::move(result_);
  }

 private:
  static CompileOptions without_tuning(CompileOptions options) {
    options.tune = Tune::off;
    return options;
  }

  bool is_range() const { return job_.range && job_.range->is_range; }

  std::vector<Search> all_searches() const {
    std::vector<Search> searches;
    for (std::vector<std::int64_t>& sizes : all_sizes()) {
      const std::size_t count = sizes.size();
      searches.push_back({tune::SizeSearch(std::move(sizes)), std::vector<Steps>(count)});
    }
    return searches;
  }

  std::vector<std::vector<std::int64_t>> all_sizes() const {
    if (!job_.range) return {{1}};  // of no symbol
    const SizeRange& range = *job_.range;
    if (!range.is_range) return {range.sizes};
    const std::int64_t first = range.sizes.front(), last = range.sizes.back();
    constexpr std::int64_t kMostSizes = std::int64_t{1} << 20;
    if (last - first >= kMostSizes) refuse(fmt::format("at most {} sizes", kMostSizes));
    auto all = tune::class_sizes(
        first, last, [&](std::int64_t size) { return executable().size_class(bound_at(size)); });
    constexpr std::size_t kMostClasses = 4096;
    std::size_t count = 0;
    for (const auto& sizes : all) count += sizes.size();
    if (count <= kMostClasses) return all;
    refuse(fmt::format("at most {} classes of sizes, which rows of a product alone share",
                       kMostClasses));
  }

  [[noreturn]] void refuse(const std::string& expected) const {
    throw ArgumentError(fmt::format("--sizes: expected {}, got {}={}..{}", expected,
                                    job_.range->symbol, job_.range->sizes.front(),
                                    job_.range->sizes.back()));
  }

  // Of a list each is measured, of a range those between which winners change.
  std::optional<Place> next() const {
    for (std::size_t i = 0; i < searches_.size(); ++i) {
      const tune::SizeSearch& sizes = searches_[i].sizes;
      const auto at = is_range() ? sizes.next() : sizes.last_unmeasured();
      if (at) return Place{i, *at};
    }
    return std::nullopt;
  }

  std::size_t num_measured() const {
    std::size_t sum = 0;
    for (const Search& each : searches_) sum += each.sizes.num_measured();
    return sum;
  }

  std::size_t num_left() const {
    std::size_t sum = 0;
    for (const auto& [sizes, steps] : searches_) {
      sum += is_range() ? sizes.num_left() : sizes.sizes().size() - sizes.num_measured();
    }
    return sum;
  }

  std::int64_t size_at(const Place& place) const {
    return searches_[place.search].sizes.sizes()[place.at];
  }

  Sizes sizes_of(std::int64_t size) const {
    Sizes sizes = job_.sizes;
    if (job_.range) sizes[job_.range->symbol] = size;
    return complete_sizes(job_.graph, sizes);
  }

  std::string text_of(std::int64_t size) const {
    std::vector<std::string> words;
    for (const auto& [symbol, value] : sizes_of(size)) {
      words.push_back(fmt::format("{}={}", symbol, value));
    }
    return fmt::format("{}", fmt::join(words, " "));
  }

  const backends::Executable& executable() const { return *program_.state().executable; }

  codegen::Bound bound_at(std::int64_t size) const {
    return backends::bind_stand_ins(executable().plan(), sizes_of(size), program_.target().kind);
  }

  void measure(const Place& place) {
    const double left = std::max(0.0, seconds_ - seconds_since(start_));
    const double share = left / static_cast<double>(std::max<std::size_t>(num_left(), 1));
    const std::int64_t size = size_at(place);
    Steps steps =
        executable().measure(bound_at(size), {std::clamp(share / 2, kFewestSeconds, kMostSeconds)});
    // Kernels of two variants have one name.
    const std::string winner = fmt::format("{} {}", place.search, choices_of(steps));
    if (is_wrong_.contains(winner)) replace(steps);
    keep(size, steps);
    if (!is_checked_.contains(winner)) check(size, winner, steps);
    searches_[place.search].sizes.add(place.at, choices_of(steps));
    tell(size, steps);
    searches_[place.search].steps[place.at] = std::move(steps);
  }

  // It and larger ones; said once, of the least. False where larger ones were measured: then less
  // memory is free than was.
  bool leave_out(const Place& place, const std::string& why) {
    tune::SizeSearch& sizes = searches_[place.search].sizes;
    const bool is_largest = sizes.num_measured() == 0;
    left_out_ = fmt::format("{} {}: left to the model{}: {}", job_.file, text_of(size_at(place)),
                            is_largest ? ", as are larger sizes" : "", why);
    if (is_largest) sizes.cut(place.at);
    return is_largest;
  }

  void tell_left_out() {
    if (!left_out_.empty()) say_(left_out_);
    left_out_.clear();
  }

  static std::string choices_of(const Steps& steps) {
    std::string all;
    for (const backends::MeasuredStep& each : steps) all += each.choice + "\n";
    return all;
  }

  void keep(std::int64_t size, const Steps& steps) {
    if (executable().keep(bound_at(size), steps)) return;
    throw ArgumentError("tune: the cache folder takes no choices");
  }

  // By float64, on random tensors. Replaces the choice where the result is wrong.
  void check(std::int64_t size, const std::string& winner, Steps& steps) {
    std::optional<HostTensors> host;
    try {
      host.emplace(job_.graph.ir(), sizes_of(size), InputOptions{});
    } catch (const ArgumentError& error) {  // too large for the host; another size may fit
      return say_(fmt::format("{} {}: not checked: {}", job_.file, text_of(size), error.what()));
    }
    TargetTensors tensors(*host, program_.target());
    tensors.poison_outputs();
    program_.run(tensors.bindings());
    tensors.fetch_outputs();
    const auto verdicts =
        verify_program(program_, host->bindings(), tensors.bindings(), kCheckedElements, 1);
    is_checked_.insert(winner);
    for (const reference::Verdict& verdict : verdicts) {
      if (verdict.ok()) continue;
      result_.wrong.push_back(fmt::format("{} {}: {} is wrong: {}", job_.file, text_of(size),
                                          verdict.output, verdict.first_failure));
      is_wrong_.insert(winner);
      replace(steps);
      return keep(size, steps);
    }
  }

  static void replace(Steps& steps) {
    for (backends::MeasuredStep& step : steps) {
      step.measured = fmt::format("the result of {} was wrong", step.choice);
      step.choice = tune::kProductAndTail;
      step.us = step.framework_us = step.padded_us = 0;
    }
  }

  void tell(std::int64_t size, const Steps& steps) {
    const double spent = seconds_since(start_);
    const std::size_t done = num_measured(), left = num_left();
    const double per_size = spent / static_cast<double>(done);
    const std::string text = text_of(size);
    result_.num_kept += steps.empty() ? 0 : 1;
    tell_left_out();
    say_(fmt::format(
        "{} {}: {} of about {} sizes, {:.0f} s of {:.0f}, about {:.0f} s left", job_.file, text,
        done, done + left, spent, seconds_,
        std::min(std::max(seconds_ - spent, 0.0), per_size * static_cast<double>(left))));
    for (const backends::MeasuredStep& step : steps) {
      say_(fmt::format("  {} runs by {}: {}", step.what, step.choice, step.measured));
      for (const std::string& dropped : step.dropped) {
        result_.wrong.push_back(fmt::format("{} {}: the result of {} is not that of the others",
                                            job_.file, text, dropped));
      }
      nlohmann::json ways = nlohmann::json::object();
      for (const auto& way : step.ways) ways[way.name] = way.us;
      result_.rows.push_back({{"file", job_.file},
                              {"sizes", text},
                              {"step", step.what},
                              {"choice", step.choice},
                              {"measured", step.measured},
                              {"ways", std::move(ways)},
                              {"dropped", step.dropped}});
    }
  }

  // Sizes between two that run alike run so too.
  void fill_between() {
    if (!is_range()) return;
    for (const Search& search : searches_) {
      const std::vector<std::int64_t>& sizes = search.sizes.sizes();
      for (std::size_t at = 0; at < sizes.size(); ++at) {
        const auto source = search.sizes.source_of(at);
        if (!source || *source == at) continue;
        Steps steps = search.steps[*source];
        for (backends::MeasuredStep& step : steps) {
          step.measured =
              fmt::format("at {}={}: {}", job_.range->symbol, sizes[*source], step.measured);
        }
        keep(sizes[at], steps);
        result_.num_kept += steps.empty() ? 0 : 1;
      }
    }
  }

  const TuneJob& job_;
  const Program program_;
  std::vector<Search> searches_;
  const double seconds_;
  const std::function<void(const std::string&)>& say_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::set<std::string> is_checked_, is_wrong_;  // winners
  std::string left_out_;                         // what is to be said of it
  TuneResult result_;
};

}  // namespace

TuneResult tune_graph(const TuneJob& job, const Target& target, const CompileOptions& options,
                      double seconds, const std::function<void(const std::string&)>& say) {
  return GraphTuner(job, target, options, seconds, say).run();
}

}  // namespace epifuse::cli
