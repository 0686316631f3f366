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
#include "backends/cuda/driver/timing.h"
#include "backends/cuda/prepare/late_kernels.h"
#include "backends/cuda/prepare/prepare.h"
#include "backends/cuda/run/run_builder.h"
#include "command.h"
#include "epifuse/error.h"
#include "jit/jit.h"
#include "output.h"
#include "passes/pipeline.h"
#include "point_tensors.h"
#include "sweep_check.h"
#include "sweep_judge.h"
#include "timing.h"

namespace epifuse::cli {
namespace {

constexpr int kRounds = 8, kBlocks = 1;
constexpr double kBlockSeconds = 0.3, kMostSeconds = 20;
constexpr std::size_t kMostSustained = 7;  // candidates, the fastest of the interleaved run
constexpr std::size_t kNumBaselines = 2;   // bare cuBLAS, and cuBLAS with a tail

struct Candidate {
  codegen::GemmConfig config;
  codegen::KernelSource source;
  std::shared_ptr<const jit::Binary> binary;
};

// A point whose one step a family takes.
struct SweepPoint {
  Point point;
  Graph graph;
  plan::Plan plan;
  const codegen::KernelFamily* family = nullptr;
  std::vector<Candidate> candidates;

  const plan::FusedGemm& step() const { return std::get<plan::FusedGemm>(plan.steps.front()); }
};

const targets::TargetInfo& require_target() {
  const auto device = cuda::Device::require();
  const targets::TargetInfo* target = targets::find_target(cuda::detect());
  if (target != nullptr) return *target;
  throw UnavailableError(fmt::format("epifuse has no kernels for {}.", device->info().name));
}

// Empty, with the reason printed, when no family takes the point as one step.
std::optional<SweepPoint> plan_point(const Point& point, const targets::TargetInfo& target) {
  const Graph graph = graph_of(point);
  const ir::Graph simplified = passes::run_all(graph.ir(), Numerics::fast);
  SweepPoint out{point, graph, plan::make_plan(simplified, {}), nullptr, {}};
  std::string why = "it is no single fused product";
  if (out.plan.steps.size() == 1 && std::holds_alternative<plan::FusedGemm>(out.plan.steps[0]) &&
      !out.step().epilogue.reduces()) {
    for (const codegen::KernelFamily& family : codegen::all_families()) {
      const auto no = family.why_not(out.plan, out.step(), target);
      if (!no) out.family = &family;
      if (!no) break;
      why = no->sentence;
    }
  }
  if (out.family == nullptr) {
    fmt::print(stderr, "{}: left out, {}\n", text(point), why);
    return std::nullopt;
  }
  for (const codegen::GemmConfig& config : out.family->configs(out.step(), target)) {
    out.candidates.push_back(
        {config, out.family->source(out.plan, out.step(), config, {}, target), nullptr});
  }
  return out;
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

// The vendor GEMM and a tail kernel, with the workspace they need.
class SplitRun {
 public:
  SplitRun(const SweepPoint& point, std::span<const Binding> tensors, cuda::Context& context,
           const targets::TargetInfo& target, std::shared_ptr<jit::Jit> jit)
      : context_(context),
        prepared_(
            cuda::as_plan(point.plan, cuda::prepare_split(point.plan, point.step(), target, *jit))),
        late_(target, std::move(jit)),
        bound_(backends::bind(prepared_.plan, tensors, DeviceKind::cuda)),
        workspace_(cuda::Device::require(),
                   cuda::workspace_bytes(prepared_, late_, context_.rules(), bound_)),
        actions_(cuda::build_run(prepared_, late_, context_, bound_,
                                 static_cast<char*>(workspace_.data()))) {}

  void operator()() const {
    for (const cuda::Action& action : actions_) cuda::run(context_.device(), action, nullptr);
  }

 private:
  cuda::Context& context_;
  const cuda::Prepared prepared_;
  cuda::LateKernels late_;
  const codegen::Bound bound_;
  const cuda::DeviceBuffer workspace_;
  const std::vector<cuda::Action> actions_;
};

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
  CandidateTimes check(const SweepPoint& point, const Candidate& candidate,
                       const std::function<void()>& run, SweepCheck& check) const;
  void time(const std::vector<std::function<void()>>& runs, const std::vector<RunTimes*>& times,
            std::size_t choice) const;

  const BenchOptions& options_;
  const targets::TargetInfo& target_;
  std::shared_ptr<jit::Jit> jit_;
  cuda::Context context_;
};

std::function<void()> Sweep::launch(const SweepPoint& point, const Candidate& candidate,
                                    const codegen::Bound& bound) {
  codegen::Launch launch = point.family->launch(point.plan, point.step(), candidate.config, {},
                                                bound, context_.limits());
  const jit::CuFunction function =
      context_.modules().get(candidate.binary, candidate.source.entry, launch.smem_bytes);
  const auto call = std::make_shared<cuda::KernelCall>(
      cuda::prepare_call(context_.device(), function, std::move(launch)));
  return [this, call] { cuda::run(context_.device(), *call, nullptr); };
}

// Runs a candidate for the first time: whether it is right, and what the model expects of it.
CandidateTimes Sweep::check(const SweepPoint& point, const Candidate& candidate,
                            const std::function<void()>& run, SweepCheck& check) const {
  CandidateTimes out{codegen::print(candidate.config)};
  const codegen::GemmSizes sizes{1, point.point.m, point.point.n, point.point.k};
  out.expected_us =
      point.family->expected_us(point.step(), candidate.config, sizes, context_.limits());
  const std::string name = fmt::format("{}, {}", text(point.point), out.config);
  const Progress progress(name);
  try {
    out.wrong = check.run(run);
  } catch (const DeviceError& error) {
    throw DeviceError(fmt::format("{}: {}", name, error.what()));
  }
  return out;
}

// All runs interleaved; then the baselines (the first two), what the model chooses and the fastest
// candidates in blocks.
void Sweep::time(const std::vector<std::function<void()>>& runs,
                 const std::vector<RunTimes*>& times, std::size_t choice) const {
  const auto us = cuda::time_interleaved(runs, options_.rounds.value_or(kRounds), kMostSeconds);
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
  std::vector<std::function<void()>> sustained_runs;
  for (const std::size_t i : order) sustained_runs.push_back(runs[i]);
  const auto sustained_us =
      cuda::time_sustained(sustained_runs, block_seconds, options_.blocks.value_or(kBlocks));
  for (std::size_t i = 0; i < order.size(); ++i) times[order[i]]->sustained_us = sustained_us[i];
}

PointTimes Sweep::measure(const SweepPoint& point) {
  PointTensors tensors(point.point, point.graph);
  const std::vector<Binding>& bindings = tensors.target().bindings();
  const codegen::Bound bound = backends::bind(point.plan, bindings, DeviceKind::cuda);
  const SplitRun split(point, bindings, context_, target_, jit_);
  SweepCheck check(point.plan, tensors);
  PointTimes out{point.point};
  std::vector<std::function<void()>> runs{[&] { tensors.bare()(nullptr); }, [&] { split(); }};
  std::vector<codegen::GemmConfig> configs;
  for (const Candidate& candidate : point.candidates) {
    runs.push_back(launch(point, candidate, bound));
    out.candidates.push_back(this->check(point, candidate, runs.back(), check));
    configs.push_back(candidate.config);
  }
  const std::size_t choice =
      codegen::choose(*point.family, point.step(), configs,
                      {1, point.point.m, point.point.n, point.point.k}, context_.limits());
  out.candidates[choice].chosen = true;
  out.rel_error = check.rel_error();
  std::vector<RunTimes*> times{&out.cublas, &out.split};
  for (CandidateTimes& candidate : out.candidates) times.push_back(&candidate.times);
  time(runs, times, kNumBaselines + choice);
  return out;
}

int Sweep::run() {
  const ResultContext about = result_context(options_);
  std::vector<SweepPoint> points;
  for (const Point& point : find_points(options_.suite, options_.filter)) {
    if (auto planned = plan_point(point, target_)) points.push_back(*std::move(planned));
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
    if (options_.results.empty()) continue;
    merge_results(std::filesystem::path(options_.results) /
                      fmt::format("sweep_{}.json", file_stem(about.device)),
                  rows);
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
