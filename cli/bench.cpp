// `epifuse bench`: measures against the bare vendor GEMM on the GPU and stores the rows.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/cuda/driver/device.h"
#include "base/printable.h"
#include "base/settings.h"
#include "bench_grid.h"
#include "bench_host.h"
#include "bench_options.h"
#include "bench_sweep.h"
#include "codegen/family.h"
#include "command.h"
#include "epifuse/error.h"
#include "files.h"
#include "options.h"
#include "output.h"
#include "random_points.h"
#include "report.h"

namespace epifuse::cli {
namespace {

void print_row(const ResultRow& row) {
  fmt::print("{:<20} {:>5}x{:>5}x{:>5} {:<20} {:<17} {:<8} {:>8.1f} us", row.workload, row.m, row.n,
             row.k, row.epilogue, row.contender, row.numerics, row.us);
  if (!row.baseline.empty()) {
    fmt::print("  ratio {:.3f}  sustained {:.3f}  rel. error {:.1e}  {}", row.ratio,
               row.ratio_sustained, row.rel_error, row.config);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

// Of --results.
std::filesystem::path results_file(const BenchOptions& options, const ResultContext& about) {
  return std::filesystem::path(options.results) / (file_stem(about.device) + ".json");
}

int measure(const BenchOptions& options) {
  const auto check = [&] {
    if (!options.results.empty()) check_results(results_file(options, result_context(options)));
  };
  // Before anything here touches the driver: it measures a process's first steps.
  const std::vector<ResultRow> host_rows =
      options.suite == "host" ? measure_host(check) : std::vector<ResultRow>{};
  const ResultContext about = result_context(options);
  if (options.suite != "host") check();
  nlohmann::json all = nlohmann::json::array();
  const auto keep = [&](const std::vector<ResultRow>& rows) {
    for (const ResultRow& row : rows) {
      all.push_back(to_json(row, about));
      if (!options.json) print_row(row);
    }
    if (!options.results.empty()) merge_results(results_file(options, about), all);
  };
  if (options.suite == "host") keep(host_rows);
  const std::vector<Point> points = points_of(options);
  compile_ahead(points, options);
  bool all_right = true;
  for (const Point& point : points) {
    const Measured measured = measure_point(point, options);
    keep(measured.rows);  // after each point, so that a run that is cut short loses nothing
    for (const std::string& wrong : measured.wrong) fmt::print(stderr, "{}\n", wrong);
    all_right = all_right && measured.wrong.empty();
  }
  if (options.json) print_json(all);
  return all_right ? kOk : kCheckFailed;
}

int list(const BenchOptions& options) {
  nlohmann::json all = nlohmann::json::array();
  for (const Point& point : points_of(options)) {
    all.push_back(to_json(point));
    if (!options.json) fmt::print("{} {}\n", text(point), name(point.dtype));
  }
  if (options.json) print_json(all);
  return kOk;
}

int report(const BenchOptions& options) {
  const std::string rows = options.results.empty() ? "bench/results/h200.json" : options.results;
  write_report(rows, options.report);
  if (options.json) {
    print_json({{"report", options.report}, {"rows", rows}});
  } else {
    fmt::print("{}: made from {}\n", printable(options.report), printable(rows));
  }
  return kOk;
}

int run(const BenchOptions& options) {
  if (!options.report.empty()) return report(options);
  check_suite(options.suite);
  if (options.sweep && options.suite == "host") {
    throw ArgumentError(
        "bench: --sweep times the kernels of products, and --grid host has no products: expected "
        "one of them, got both");
  }
  codegen::check_family(options.family);
  if (options.list) return list(options);
  if (!options.results.empty()) check_writable(std::filesystem::path(options.results) / "");
  return options.sweep ? sweep(options) : measure(options);
}

}  // namespace

std::vector<Point> points_of(const BenchOptions& options) {
  if (options.suite == "host") return {};  // of steps of a process
  std::vector<Point> points =
      options.suite == "random"
          ? filtered(random_points(options.seed, options.count), options.filters)
      : options.suite == "random_fp8"
          ? filtered(random_fp8_points(options.seed, options.count), options.filters)
          : find_points(options.suite, options.filters);
  // Rows of a named family are a suite of their own, beside those of the usual one.
  for (Point& point : points) {
    if (!options.family.empty()) point.suite = options.family;
  }
  return points;
}

ResultContext result_context(const BenchOptions& options) {
  const auto device = cuda::Device::require();
  ResultContext out;
  out.device = device->info().name;
  out.driver = cuda::version_text(device->info().driver_version);
  out.commit = options.commit;
  out.command = fmt::format("epifuse bench --grid {}", options.suite);
  if (options.suite.starts_with("random")) {
    out.command += fmt::format(" --seed {} --count {}", options.seed, options.count);
  }
  if (options.sweep) out.command += " --sweep";
  if (!options.family.empty()) out.command += fmt::format(" --family {}", options.family);
  if (options.tune) out.command += " --tune";
  if (options.rounds) out.command += fmt::format(" --rounds {}", *options.rounds);
  if (options.blocks) out.command += fmt::format(" --blocks {}", *options.blocks);
  if (options.sustained_seconds) {
    out.command += fmt::format(" --sustained {}", *options.sustained_seconds);
  }
  if (const std::string tune = Settings::read().tune; !tune.empty()) {
    out.command = fmt::format("EPIFUSE_TUNE={} {}", tune, out.command);
  }
  out.date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  return out;
}

std::function<int()> define_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  app.add_option("--grid,--suite", options->suite,
                 "dense, square, small, gated, bare, fp8, random, random_fp8 or host: see below")
      ->capture_default_str();
  app.add_option(
      "--filter", options->filters,
      "Only points whose text has one of these, e.g. 512x14336x4096 \"128x4096x4096 res\"");
  add_seed(app, options->seed, "Of the points of suites random and random_fp8");
  app.add_option("--count", options->count, "How many points these suites have")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  app.add_flag("--list", options->list, "Measure nothing: name the points of the suite");
  app.add_option("--family", options->family, "The kernel family that is measured");
  app.add_option("--numerics", options->numerics, "Levels to measure: fast, exact, approx")
      ->capture_default_str()
      ->check(CLI::IsMember({"fast", "exact", "approx"}));
  app.add_flag("--sweep", options->sweep,
               "Time every config of the kernel family, and judge the one that its model chooses");
  app.add_flag("--tune", options->tune,
               "Measure all kernels at each point first, and keep the choice on disk");
  app.add_option("--rounds", options->rounds,
                 "Interleaved rounds a point (30; --sweep: 8, then 4 times as many of the best)")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--sustained", options->sustained_seconds,
                 "Seconds a back-to-back block (0.8; --sweep: 0.3); 0: none")
      ->check(seconds_to(3600.0));
  app.add_option("--blocks", options->blocks, "Blocks of each contender (3; --sweep: 1)")
      ->check(CLI::Range(1, 1000));
  add_file(app, "--results", options->results,
           "Folder whose <device>.json (--sweep: sweep_<device>.json) takes the rows; for "
           "--report the file to read (bench/results/h200.json)");
  add_file(app, "--report", options->report,
           "Measure nothing: write this page, and a plot beside it, from measured rows");
  app.add_option("--commit", options->commit, "What was measured, for the rows");
  app.add_flag("--json", options->json, "Print JSON");
  app.footer(
      "Suites:\n"
      "  dense       layers of transformers, fused, against the bare product\n"
      "  square      square products\n"
      "  small       few rows or few columns\n"
      "  gated       two products and a gate, against both products bare\n"
      "  bare        nothing fused; with --sweep the bare_ratios of src/targets/devices\n"
      "  fp8         scales of rows and columns, or of blocks, against a product with scales 1\n"
      "  random      products that nobody chose; random_fp8 the same in 8 bits\n"
      "  host        what a compilation, a start and a launch cost\n"
      "ratio: time / time of the bare vendor GEMM of the same shape, launches alternated in one "
      "run,\n"
      "L2 flushed before each; sustained: the same in back-to-back blocks.\n"
      "Examples:\n"
      "  epifuse bench --grid square --filter bias+silu --results bench/results --commit $(git "
      "rev-parse HEAD)\n"
      "  epifuse bench --report docs/performance.md");
  return [options] { return run(*options); };
}

}  // namespace epifuse::cli
