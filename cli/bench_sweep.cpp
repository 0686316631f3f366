#include "bench_sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/cuda/backend.h"
#include "backends/cuda/driver/context.h"
#include "backends/cuda/driver/memory.h"
#include "backends/cuda/driver/timing.h"
#include "backends/cuda/prepare/late_kernels.h"
#include "backends/cuda/prepare/prepare.h"
#include "backends/cuda/run/run_builder.h"
#include "backends/pointer_arrays.h"
#include "command.h"
#include "copies_run.h"
#include "epifuse/error.h"
#include "jit/jit.h"
#include "output.h"
#include "planned_point.h"
#include "point_tensors.h"
#include "split_run.h"
#include "sweep_check.h"
#include "sweep_finals.h"
#include "sweep_judge.h"
#include "timing.h"
#include "tune/shortlist.h"

namespace epifuse::cli {
namespace {

constexpr int kRounds = 8, kBlocks = 1;
constexpr int kFinalRounds = 4;  // times those of all candidates
constexpr double kBlockSeconds = 0.3, kMostSeconds = 20;
constexpr std::size_t kMostSustained = 7;  // candidates, the fastest of the interleaved run
constexpr std::size_t kNumBaselines = 2;   // bare cuBLAS, and cuBLAS with a tail

struct Candidate {
  codegen::GemmConfig config;
  codegen::KernelSource source;
  std::shared_ptr<const jit::Binary> binary;
};

struct SweepPoint : PlannedPoint {
  std::vector<Candidate> candidates = {};
};

void add_candidates(SweepPoint& point, const targets::TargetInfo& target) {
  for (const codegen::GemmConfig& config : configs_of(point, target)) {
    point.candidates.push_back(
        {config, point.family->source(point.plan, point.step(), config, point.variant, target),
         nullptr});
  }
}

// All at once: points share kernels, and nothing compiles while times are taken.
void compile(std::vector<SweepPoint>& points, jit::Jit& jit) {
  const Progress progress("compiling all candidates");
  std::vector<codegen::KernelSource> sources;
  for (const SweepPoint& point : points) {
    for (const Candidate& candidate : point.candidates) sources.push_back(candidate.source);
  }
  const auto binaries = jit.get(sources);
  std::size_t next = 0;
  for (SweepPoint& point : points) {
    for (Candidate& candidate : point.candidates) candidate.binary = binaries[next++];
    std::erase_if(point.candidates, [&](const Candidate& candidate) {
      const std::vector<std::string>& problems = candidate.binary->problems;
      if (problems.empty()) return false;
      fmt::print(stderr, "{}, {}: dropped, {}\n", text(point.point),
                 codegen::print(candidate.config), fmt::join(problems, "; "));
      return true;
    });
  }
}

using Runs = std::vector<std::function<void()>>;

Runs at(const Runs& runs, const std::vector<std::size_t>& places) {
  Runs out;
  for (const std::size_t place : places) out.push_back(runs[place]);
  return out;
}

class Sweep {
 public:
  explicit Sweep(const BenchOptions& options)
      : options_(options),
        target_(require_target()),
        jit_(std::make_shared<jit::Jit>(jit::KernelCache(jit::KernelCache::default_folder()))),
        context_(cuda::Device::require(), target_) {}

  int run();

 private:
  PointTimes measure(const SweepPoint& point);
  std::function<void()> launch(const SweepPoint& point, const Candidate& candidate,
                               const codegen::Bound& bound);
  codegen::Scratch scratch(const SweepPoint& point, const Candidate& candidate,
                           const codegen::Bound& bound) const;
  CandidateTimes check(const SweepPoint& point, const Candidate& candidate,
                       const std::function<void()>& run, SweepCheck& check) const;
  static CandidateTimes check(const SweepPoint& point, CandidateTimes candidate,
                              const std::function<void()>& run, SweepCheck& check);
  std::optional<CopiesRun> copies(const SweepPoint& point,
                                  const std::vector<Binding>& bindings) const;
  void time(const Runs& runs, const std::vector<RunTimes*>& times, std::size_t choice) const;

  const BenchOptions& options_;
  const targets::TargetInfo& target_;
  std::shared_ptr<jit::Jit> jit_;
  cuda::Context context_;
};

std::function<void()> Sweep::launch(const SweepPoint& point, const Candidate& candidate,
                                    const codegen::Bound& bound) {
  codegen::Launch launch = point.family->launch(point.plan, point.step(), candidate.config,
                                                point.variant, bound, context_.limits());
  const jit::CuFunction function =
      context_.modules().get(candidate.binary, candidate.source.entry, launch.smem_bytes);
  const auto call = std::make_shared<cuda::KernelCall>(
      cuda::prepare_call(context_.device(), function, std::move(launch)));
  const std::size_t zeros = scratch(point, candidate, bound).zeros;
  const cuda::ClearAction clear{reinterpret_cast<jit::CuDevicePtr>(bound.scratch), zeros, zeros, 1};
  return [this, call, clear] {
    if (clear.width_bytes > 0) cuda::run(context_.device(), cuda::Action(clear), nullptr);
    cuda::run(context_.device(), *call, nullptr);
  };
}

codegen::Scratch Sweep::scratch(const SweepPoint& point, const Candidate& candidate,
                                const codegen::Bound& bound) const {
  if (point.family->scratch == nullptr) return {};
  return point.family->scratch(point.step(), candidate.config, point.variant, bound.sizes,
                               context_.limits());
}

// Runs a candidate for the first time: whether it is right, and what the model expects of it.
CandidateTimes Sweep::check(const SweepPoint& point, const Candidate& candidate,
                            const std::function<void()>& run, SweepCheck& check) const {
  const double expected_us =
      point.family->expected_us(point.step(), candidate.config, point.sizes, context_.profile());
  return Sweep::check(point, {codegen::print(candidate.config), expected_us}, run, check);
}

CandidateTimes Sweep::check(const SweepPoint& point, CandidateTimes out,
                            const std::function<void()>& run, SweepCheck& check) {
  const std::string name = fmt::format("{}, {}", text(point.point), out.config);
  const Progress progress(name);
  try {
    out.wrong = check.run(run);
  } catch (const DeviceError& error) {
    throw DeviceError(fmt::format("{}: {}", name, error.what()));
  }
  return out;
}

// The kernel behind copies of misaligned operands, unless a family was named: then none is copied.
std::optional<CopiesRun> Sweep::copies(const SweepPoint& point,
                                       const std::vector<Binding>& bindings) const {
  const bool may_copy = point.family->roles(point.variant).are_misaligned();
  if (!may_copy || !options_.family.empty()) return std::nullopt;
  return copies_run(point.plan, bindings);
}

// All runs interleaved; then the baselines (the first two), what the model chooses and the fastest
// candidates again, and in blocks.
void Sweep::time(const Runs& runs, const std::vector<RunTimes*>& times, std::size_t choice) const {
  const int rounds = options_.rounds.value_or(kRounds);
  std::vector<double> us = cuda::time_interleaved(runs, rounds, kMostSeconds);
  time_finals(us, kNumBaselines, {0, 1, choice}, [&](const std::vector<std::size_t>& places) {
    return cuda::time_interleaved(at(runs, places), kFinalRounds * rounds, kMostSeconds);
  });
  for (std::size_t i = 0; i < runs.size(); ++i) times[i]->us = us[i];
  const double block_seconds = options_.sustained_seconds.value_or(kBlockSeconds);
  if (block_seconds <= 0) return;
  std::vector<std::size_t> order;
  for (std::size_t i = kNumBaselines; i < runs.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return us[a] < us[b]; });
  order.resize(std::min(order.size(), kMostSustained));
  for (const std::size_t always : {std::size_t{0}, std::size_t{1}, choice}) {
    if (std::find(order.begin(), order.end(), always) == order.end()) order.push_back(always);
  }
  const auto sustained_us =
      cuda::time_sustained(at(runs, order), block_seconds, options_.blocks.value_or(kBlocks));
  for (std::size_t i = 0; i < order.size(); ++i) times[order[i]]->sustained_us = sustained_us[i];
}

PointTimes Sweep::measure(const SweepPoint& point) {
  PointTensors tensors(point.point, point.graph);
  const std::vector<Binding>& bindings = tensors.target().bindings();
  codegen::Bound bound = backends::bind(point.plan, bindings, DeviceKind::cuda);
  std::size_t most = 0;
  for (const Candidate& candidate : point.candidates) {
    most = std::max(most, scratch(point, candidate, bound).bytes);
  }
  const cuda::DeviceBuffer of_all(cuda::Device::require(), most);  // they run one after another
  bound.scratch = of_all.data();
  const auto split = split_run(point.plan, bindings);
  SweepCheck check(point.plan, tensors);
  PointTimes out{point.point};
  Runs runs{[&] { tensors.bare()(nullptr); }, [&] { split(); }};
  std::vector<codegen::GemmConfig> configs;
  for (const Candidate& candidate : point.candidates) {
    runs.push_back(launch(point, candidate, bound));
    out.candidates.push_back(this->check(point, candidate, runs.back(), check));
    configs.push_back(candidate.config);
  }
  std::size_t choice =
      codegen::choose(*point.family, point.step(), configs, point.sizes, context_.profile());
  if (const auto copies = this->copies(point, bindings)) {
    if (copies->is_chosen) choice = out.candidates.size();
    runs.push_back(copies->run);
    out.candidates.push_back(
        this->check(point, {copies->config, copies->expected_us}, runs.back(), check));
  }
  out.candidates[choice].chosen = true;
  out.rel_error = check.rel_error();
  std::vector<RunTimes*> times{&out.cublas, &out.split};
  for (CandidateTimes& candidate : out.candidates) times.push_back(&candidate.times);
  time(runs, times, kNumBaselines + choice);
  return out;
}

int Sweep::run() {
  const ResultContext about = result_context(options_);
  const std::filesystem::path file = std::filesystem::path(options_.results) /
                                     fmt::format("sweep_{}.json", file_stem(about.device));
  if (!options_.results.empty()) check_results(file);
  std::vector<SweepPoint> points;
  for (const Point& point : points_of(options_)) {
    auto planned = plan_point(point, target_, options_.family);
    if (const auto* why = std::get_if<plan::WhyNot>(&planned)) {
      fmt::print(stderr, "{}: left out, {}\n", text(point), why->sentence);
      continue;
    }
    points.push_back({std::get<PlannedPoint>(std::move(planned))});
    add_candidates(points.back(), target_);
  }
  compile(points, *jit_);
  nlohmann::json rows = nlohmann::json::array();
  std::vector<Outcome> outcomes;
  bool all_right = true;
  for (const SweepPoint& point : points) {
    if (point.candidates.empty()) continue;
    const PointTimes times = measure(point);
    for (const ResultRow& row : rows_of(times)) rows.push_back(to_json(row, about));
    for (const CandidateTimes& each : times.candidates) all_right &= each.wrong.empty();
    outcomes.push_back(judge(times));
    if (!options_.json) fmt::print("{}", describe(times, outcomes.back()));
    std::fflush(stdout);
    if (!options_.results.empty()) merge_results(file, rows);
  }
  if (options_.json) {
    print_json(rows);
  } else {
    fmt::print("{}", describe(outcomes));
  }
  return all_right ? kOk : kCheckFailed;
}

}  // namespace

int sweep(const BenchOptions& options) { return Sweep(options).run(); }

}  // namespace epifuse::cli
