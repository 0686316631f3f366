#include "bench_grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/cuda/timing.h"
#include "epifuse/error.h"
#include "point_tensors.h"
#include "program_state.h"
#include "timing.h"
#include "verify_program.h"

namespace epifuse::cli {
namespace {

constexpr std::int64_t kCheckedRows = 16;
constexpr int kRounds = 30, kBlocks = 3;
constexpr double kBlockSeconds = 0.8, kMostSeconds = 20;
// More than rounding to bf16 and the library's own tanh make of a right result.
constexpr double kMostVendorError = 0.01;

Numerics level(const std::string& name) {
  for (const Numerics numerics : {Numerics::fast, Numerics::exact, Numerics::approx}) {
    if (epifuse::name(numerics) == name) return numerics;
  }
  throw ArgumentError(fmt::format("no level of numerics is called '{}'", name));
}

// How a program runs on these tensors: "sm90_dense, ping-pong 128x192, 4 stages".
std::string config_of(const Program& program, std::span<const Binding> tensors) {
  const backends::Executable& executable = *program.state().executable;
  const codegen::Bound bound = backends::bind(executable.plan(), tensors, DeviceKind::cuda);
  return fmt::format("{}", fmt::join(executable.plan_for(bound).how, "; "));
}

// Some rows of what lies in the outputs against float64, within the bounds of `program`.
reference::Verdict compare(const Program& program, PointTensors& tensors, const Point& point) {
  tensors.target().fetch_outputs();
  const auto verdicts = verify_program(program, tensors.host().bindings(),
                                       tensors.target().bindings(), kCheckedRows * point.n);
  for (const reference::Verdict& verdict : verdicts) {
    if (!verdict.ok()) return verdict;
  }
  return verdicts.front();
}

// One way to do a point's work, its time and its row.
struct Contender {
  ResultRow row;
  std::function<void()> run;
};

Contender program_contender(const Point& point, const Program& program, const std::string& numerics,
                            PointTensors& tensors) {
  const auto run = [program, &tensors] { program.run(tensors.target().bindings()); };
  tensors.target().poison_outputs();
  run();
  const reference::Verdict verdict = compare(program, tensors, point);
  if (!verdict.ok()) throw DeviceError("wrong result: " + verdict.first_failure);
  Contender out{row_of(point, "epifuse", numerics), run};
  out.row.rel_error = verdict.relative_error;
  out.row.config = config_of(program, tensors.target().bindings());
  return out;
}

// The library promises no bounds: its results only have to be near.
std::optional<Contender> vendor_contender(const Point& point, const Program& program,
                                          PointTensors& tensors) {
  const auto epilogue =
      epilogue_words(point).front() == "identity" ? nullptr : tensors.vendor_epilogue();
  if (!epilogue) return std::nullopt;
  const auto run = [epilogue] { epilogue(nullptr); };
  tensors.target().poison_outputs();
  run();
  const reference::Verdict verdict = compare(program, tensors, point);
  if (!(verdict.relative_error < kMostVendorError)) {
    throw DeviceError("cuBLASLt's epilogue computes something else: " + verdict.first_failure);
  }
  Contender out{row_of(point, "cublaslt-epilogue", "cublasLt"), run};
  out.row.rel_error = verdict.relative_error;
  return out;
}

}  // namespace

std::vector<ResultRow> measure_point(const Point& point, const BenchOptions& options) {
  const Progress progress(text(point));
  const Graph graph = graph_of(point);
  PointTensors tensors(point, graph);
  std::vector<Contender> contenders;
  for (const std::string& numerics : options.numerics) {
    const Program program = compile(graph, Target::cuda(), {level(numerics)});
    if (options.tune) program.tune(tensors.target().bindings());
    contenders.push_back(program_contender(point, program, numerics, tensors));
    if (contenders.size() > 1) continue;
    if (auto vendor = vendor_contender(point, program, tensors)) {
      contenders.push_back(*std::move(vendor));
    }
  }
  std::vector<std::function<void()>> runs{[&] { tensors.bare()(nullptr); }};
  for (const Contender& contender : contenders) runs.push_back(contender.run);
  const auto us = cuda::time_interleaved(runs, options.rounds.value_or(kRounds), kMostSeconds);
  std::vector<double> sustained(runs.size(), 0.0);
  const double block_seconds = options.sustained_seconds.value_or(kBlockSeconds);
  if (block_seconds > 0) {
    sustained = cuda::time_sustained(runs, block_seconds, options.blocks.value_or(kBlocks));
  }
  std::vector<ResultRow> rows;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    ResultRow& row = rows.emplace_back(std::move(contenders[i].row));
    row.us = us[i + 1];
    row.ratio = us[i + 1] / us[0];
    if (sustained[0] > 0) row.ratio_sustained = sustained[i + 1] / sustained[0];
  }
  return rows;
}

}  // namespace epifuse::cli
