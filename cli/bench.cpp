// `epifuse bench`: measures against the bare vendor GEMM on the GPU and stores the rows.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/cuda/device.h"
#include "backends/cuda/memory.h"
#include "backends/cuda/timing.h"
#include "backends/cuda/vendor_gemm.h"
#include "bench_host.h"
#include "command.h"
#include "epifuse/error.h"
#include "program_state.h"
#include "results.h"
#include "tensors.h"
#include "timing.h"
#include "verify_program.h"

namespace epifuse::cli {
namespace {

struct Point {
  const char *suite, *workload;
  std::int64_t m, n, k;
  const char* epilogue;
};

constexpr Point kPoints[] = {
#define EPIFUSE_POINT(suite, workload, m, n, k, epilogue) {suite, workload, m, n, k, epilogue},
#include "bench_grid.def"
#undef EPIFUSE_POINT
};

struct Options {
  std::string suite = "dense", results, commit, filter;
  int rounds = 30;
  double sustained_seconds = 0.8;
  bool json = false;
};

constexpr std::int64_t kCheckedRows = 16;

// The graph that an epilogue's name spells, over x[M, k], w[n, k], b[n], r[M, n], all bf16.
Graph graph_of(const Point& point) {
  const Dim m("M");
  Graph graph("bench");
  const Value x = graph.input("x", DType::bf16, {m, point.k});
  const Value w = graph.input("w", DType::bf16, {point.n, point.k});
  const Value b = graph.input("b", DType::bf16, {point.n});
  const Value r = graph.input("r", DType::bf16, {m, point.n});
  Value y = matmul(x, transpose(w));
  const std::string text = point.epilogue;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('+', at), text.size());
    const std::string step = text.substr(at, end - at);
    y = step == "bias" ? y + b : step == "residual" ? y + r : apply(step, {y});
    at = end + 1;
  }
  graph.output("y", y);
  return graph;
}

bool has_activation(const Point& point) {
  return std::strstr(point.epilogue, "silu") || std::strstr(point.epilogue, "gelu_tanh");
}

TensorView view_of(const TargetTensors& tensors, std::string_view name) {
  for (const Binding& binding : tensors.bindings()) {
    if (binding.name == name) return binding.view;
  }
  throw InternalError("the benchmark's graph has no such tensor");
}

// The relative error after checking some rows against float64; DeviceError when they are wrong.
double check(const Program& program, const HostTensors& host, TargetTensors& tensors,
             std::int64_t n) {
  tensors.poison_outputs();
  program.run(tensors.bindings());
  tensors.fetch_outputs();
  const auto verdict =
      verify_program(program, host.bindings(), tensors.bindings(), kCheckedRows * n).at(0);
  if (!verdict.ok()) throw DeviceError("wrong result: " + verdict.first_failure);
  return verdict.relative_error;
}

// Rows of all levels of numerics at one point.
std::vector<ResultRow> measure(const Point& point, const Options& options) {
  const Progress progress(
      fmt::format("{} {}x{}x{} {}", point.workload, point.m, point.n, point.k, point.epilogue));
  const Graph graph = graph_of(point);
  HostTensors host(graph.ir(), {{"M", point.m}}, {});
  TargetTensors tensors(host, Target::cuda());
  TensorView w = view_of(tensors, "w");
  w.shape = {point.k, point.n};
  w.strides = {1, point.k};
  const auto device = cuda::Device::require();
  cuda::DeviceBuffer bare_result(device, static_cast<std::size_t>(point.m * point.n) * 2);
  TensorView d = view_of(tensors, "y");
  d.data = bare_result.data();
  const auto bare = cuda::bare_gemm(device, view_of(tensors, "x"), w, d);
  std::vector<std::function<void()>> runs{[&] { bare(nullptr); }};
  std::vector<ResultRow> rows;
  std::vector<Program> programs;
  for (const Numerics numerics : {Numerics::fast, Numerics::approx}) {
    if (numerics == Numerics::approx && !has_activation(point)) continue;
    programs.push_back(compile(graph, Target::cuda(), {numerics}));
    ResultRow row{point.suite, point.workload, point.m, point.n, point.k};
    row.dtype = "bf16";
    row.epilogue = point.epilogue;
    row.numerics = name(numerics);
    row.contender = "epifuse";
    row.baseline = "cublas";
    row.rel_error = check(programs.back(), host, tensors, point.n);
    rows.push_back(row);
  }
  for (const Program& program : programs) {
    runs.push_back([&] { program.run(tensors.bindings()); });
  }
  const auto us = cuda::time_interleaved(runs, options.rounds, 20.0);
  std::vector<double> sustained(runs.size(), 0.0);
  if (options.sustained_seconds > 0) {
    sustained = cuda::time_sustained(runs, options.sustained_seconds);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].us = us[i + 1];
    rows[i].ratio = us[i + 1] / us[0];
    if (sustained[0] > 0) rows[i].ratio_sustained = sustained[i + 1] / sustained[0];
  }
  return rows;
}

void print_row(const ResultRow& row) {
  fmt::print("{:<17} {:>5}x{:>5}x{:>5} {:<15} {:<7} {:>8.1f} us", row.workload, row.m, row.n, row.k,
             row.epilogue, row.numerics, row.us);
  if (!row.baseline.empty()) {
    fmt::print("  ratio {:.3f}  sustained {:.3f}  rel. error {:.1e}", row.ratio,
               row.ratio_sustained, row.rel_error);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

bool wanted(const Point& point, const Options& options) {
  const std::string text =
      fmt::format("{} {}x{}x{} {}", point.workload, point.m, point.n, point.k, point.epilogue);
  return point.suite == options.suite && text.find(options.filter) != std::string::npos;
}

ResultContext context(const Options& options) {
  const auto device = cuda::Device::require();
  ResultContext out;
  out.device = device->info().name;
  out.driver = cuda::version_text(device->info().driver_version);
  out.commit = options.commit;
  out.command = fmt::format("epifuse bench --suite {} --rounds {}", options.suite, options.rounds);
  out.date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  return out;
}

int run(const Options& options) {
  // Before anything here touches the driver: it measures a process's first steps.
  const std::vector<ResultRow> host_rows =
      options.suite == "host" ? measure_host() : std::vector<ResultRow>{};
  const ResultContext about = context(options);
  nlohmann::json all = nlohmann::json::array();
  const auto keep = [&](const ResultRow& row) {
    all.push_back(to_json(row, about));
    if (!options.json) print_row(row);
  };
  for (const ResultRow& row : host_rows) keep(row);
  for (const Point& point : kPoints) {
    if (!wanted(point, options)) continue;
    for (const ResultRow& row : measure(point, options)) keep(row);
    // After each point, so that a run that is cut short loses nothing.
    if (!options.results.empty()) {
      merge_results(std::filesystem::path(options.results) / (file_stem(about.device) + ".json"),
                    all);
    }
  }
  if (all.empty()) {
    throw ArgumentError(
        fmt::format("bench: no point of suite '{}' matches '{}'; suites: dense, small, host",
                    options.suite, options.filter));
  }
  if (!options.results.empty()) {
    merge_results(std::filesystem::path(options.results) / (file_stem(about.device) + ".json"),
                  all);
  }
  if (options.json) fmt::print("{}\n", all.dump(2));
  return kOk;
}

}  // namespace

std::function<int()> define_bench(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("--suite", options->suite,
                 "dense and small (fused against the bare product), host (compile, start, launch)")
      ->capture_default_str();
  app.add_option("--filter", options->filter,
                 "Only points whose text has this, e.g. 8192x8192x512");
  app.add_option("--rounds", options->rounds, "Interleaved rounds a point")->capture_default_str();
  app.add_option("--sustained", options->sustained_seconds, "Seconds a back-to-back block; 0: none")
      ->capture_default_str();
  app.add_option("--results", options->results, "Folder whose <device>.json takes the rows");
  app.add_option("--commit", options->commit, "What was measured, for the rows");
  app.add_flag("--json", options->json, "Print JSON");
  app.footer(
      "ratio: time / time of the bare vendor GEMM of the same shape, launches alternated in one "
      "run,\n"
      "L2 flushed before each; sustained: the same in back-to-back blocks.\n"
      "Example: epifuse bench --filter bias+silu --results bench/results --commit $(git rev-parse "
      "HEAD)");
  return [options] { return run(*options); };
}

}  // namespace epifuse::cli
