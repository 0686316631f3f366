#include "bench_grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/cuda/driver/timing.h"
#include "base/parallel.h"
#include "check/verify_program.h"
#include "compile/program_state.h"
#include "epifuse/error.h"
#include "point_tensors.h"
#include "split_run.h"
#include "timing.h"

namespace epifuse::cli {
namespace {

constexpr std::int64_t kCheckedRows = 16;
constexpr std::int64_t kFewRows = 8;  // what reading the weights takes is all that counts
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

// How a program runs on these tensors: its kernels' families and configs.
std::string config_of(const Program& program, std::span<const Binding> tensors) {
  const backends::Executable& executable = *program.state().executable;
  const codegen::Bound bound = backends::bind(executable.plan(), tensors, DeviceKind::cuda);
  return fmt::format("{}", fmt::join(executable.plan_for(bound).how, "; "));
}

// Some rows of what lies in the outputs against float64, within the bounds of `program`.
reference::Verdict compare(const Program& program, PointTensors& tensors, const Point& point) {
  tensors.target().fetch_outputs();
  const auto verdicts =
      verify_program(program, tensors.host().bindings(), tensors.target().bindings(),
                     kCheckedRows * product_columns(point));
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

// Runs once; the relative error goes to the row. What is wrong with the result, if anything.
std::string check(const Program& program, const Point& point, PointTensors& tensors,
                  Contender& contender) {
  tensors.target().poison_outputs();
  contender.run();
  const reference::Verdict verdict = compare(program, tensors, point);
  contender.row.rel_error = verdict.relative_error;
  // The library promises no bounds: its results only have to be near, and most within ours.
  const bool near =
      verdict.relative_error < kMostVendorError && 2 * verdict.failed < verdict.checked;
  if (contender.row.contender == "epifuse" ? verdict.ok() : near) return "";
  return fmt::format("{}, {} {}: wrong result, {}", text(point), contender.row.contender,
                     contender.row.numerics, verdict.first_failure);
}

CompileOptions options_of(const std::string& numerics, const BenchOptions& options) {
  CompileOptions out{level(numerics)};
  out.family = options.family;
  return out;
}

// The ways to do a point's work that give right results.
std::vector<Contender> contenders_of(const Point& point, const Graph& graph, PointTensors& tensors,
                                     const BenchOptions& options, std::vector<std::string>& wrong) {
  std::vector<Contender> out;
  const auto add = [&](const Program& program, Contender contender) {
    std::string why = check(program, point, tensors, contender);
    if (contender.row.contender == "epifuse") {  // its first run may have measured the choice
      contender.row.config = config_of(program, tensors.target().bindings());
    }
    if (why.empty()) {
      out.push_back(std::move(contender));
    } else {
      wrong.push_back(std::move(why));
    }
  };
  for (const std::string& numerics : options.numerics) {
    const Program program = compile(graph, Target::cuda(), options_of(numerics, options));
    if (options.tune) program.tune(tensors.target().bindings());
    Contender ours{row_of(point, "epifuse", numerics),
                   [program, &tensors] { program.run(tensors.target().bindings()); }};
    add(program, std::move(ours));
    if (&numerics != &options.numerics.front() || epilogue_words(point).front() == "identity") {
      continue;
    }
    if (const auto epilogue = tensors.vendor_epilogue()) {
      add(program,
          {row_of(point, "cublaslt-epilogue", "cublasLt"), [epilogue] { epilogue(nullptr); }});
    }
  }
  if (point.suite == "small" && point.m <= kFewRows) {
    out.push_back(
        {row_of(point, "copy", "cuMemcpy"), [copy = tensors.copy_of_weights()] { copy(nullptr); }});
  }
  if (!point.suite.starts_with("random")) return out;
  if (const auto plan = plan_of_product(graph)) {
    const Program program = compile(graph, Target::cuda());
    add(program, {row_of(point, "cublas+tail", options.numerics.front()),
                  split_run(*plan, tensors.target().bindings())});
  }
  return out;
}

}  // namespace

Measured measure_point(const Point& point, const BenchOptions& options) {
  const Progress progress(text(point));
  const Graph graph = graph_of(point);
  PointTensors tensors(point, graph);
  Measured out;
  std::vector<Contender> contenders = contenders_of(point, graph, tensors, options, out.wrong);
  if (contenders.empty()) return out;
  std::vector<std::function<void()>> runs{[&] { tensors.bare()(nullptr); }};
  for (const Contender& contender : contenders) runs.push_back(contender.run);
  const auto us = cuda::time_interleaved(runs, options.rounds.value_or(kRounds), kMostSeconds);
  std::vector<double> sustained(runs.size(), 0.0);
  const double block_seconds = options.sustained_seconds.value_or(kBlockSeconds);
  if (block_seconds > 0) {
    sustained = cuda::time_sustained(runs, block_seconds, options.blocks.value_or(kBlocks));
  }
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    ResultRow& row = out.rows.emplace_back(std::move(contenders[i].row));
    row.us = us[i + 1];
    row.ratio = us[i + 1] / us[0];
    if (sustained[0] > 0) row.ratio_sustained = sustained[i + 1] / sustained[0];
  }
  return out;
}

void compile_ahead(const std::vector<Point>& points, const BenchOptions& options) {
  const Progress progress("compiling what the points need");
  parallel_for(static_cast<std::int64_t>(points.size()), [&](std::int64_t i, int) {
    for (const std::string& numerics : options.numerics) {
      compile(graph_of(points[static_cast<std::size_t>(i)]), Target::cuda(),
              options_of(numerics, options));
    }
  });
}

}  // namespace epifuse::cli
