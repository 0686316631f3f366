// `epifuse functions`: how exact each op's function is on a target, and what it costs there.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/cuda/driver/device.h"
#include "base/did_you_mean.h"
#include "base/printable.h"
#include "check/op_accuracy.h"
#include "command.h"
#include "epifuse/error.h"
#include "files.h"
#include "function_table.h"
#include "op_cost.h"
#include "options.h"
#include "output.h"
#include "results.h"
#include "timing.h"

namespace epifuse::cli {
namespace {

struct Options {
  std::string target = "auto", only, results, commit, from, document;
  int log2_samples = 21;
  bool json = false;
};

using Function = std::pair<ir::Op, Numerics>;

// What can be measured: each op under `fast`, and under `approx` where that is other code.
std::vector<Function> chosen_functions(const Options& options) {
  std::vector<Function> functions;
  for (const ir::Op op : measurable_ops()) {
    if (!options.only.empty() && ir::name(op) != options.only) continue;
    functions.emplace_back(op, Numerics::fast);
    if (has_own_approx(op)) functions.emplace_back(op, Numerics::approx);
  }
  if (functions.empty()) {
    std::vector<std::string_view> names;
    for (const ir::Op op : measurable_ops()) names.push_back(ir::name(op));
    throw ArgumentError(fmt::format("functions: no arithmetic op is called {}{}",
                                    printable(options.only), did_you_mean(options.only, names)));
  }
  return functions;
}

ResultContext context(const Options& options, const Target& target) {
  ResultContext out;
  out.device = "CPU";
  if (target.kind == DeviceKind::cuda) {
    const auto device = cuda::Device::require();
    out.device = device->info().name;
    out.driver = cuda::version_text(device->info().driver_version);
  }
  out.commit = options.commit;
  out.command = fmt::format("epifuse functions --target {} --samples {}", options.target,
                            options.log2_samples);
  out.date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  return out;
}

nlohmann::json measure(const Options& options, const Target& target, const ResultContext& about) {
  const std::vector<Function> functions = chosen_functions(options);
  std::vector<double> clocks;
  if (target.kind == DeviceKind::cuda) {
    const Progress progress("costs");
    clocks = measure_clocks(functions);
  }
  if (!options.json) fmt::print("{}", function_line_head(!clocks.empty()));
  nlohmann::json rows = nlohmann::json::array();
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const auto [op, numerics] = functions[i];
    const OpAccuracy found =
        measure_accuracy(op, numerics, target, std::size_t{1} << options.log2_samples);
    rows.push_back(function_row(
        found, clocks.empty() ? std::nullopt : std::optional<double>(clocks[i]), about));
    if (options.json) continue;
    fmt::print("{}", function_line(rows.back()));
    if (found.num_refused > 0) fmt::print("  {}\n", found.first_refused);
    std::fflush(stdout);
  }
  if (!options.json) fmt::print("{}", function_legend(!clocks.empty()));
  return rows;
}

int write_document(const Options& options) {
  const nlohmann::json rows = read_rows(options.from);
  std::string tables;
  try {
    tables = function_markdown(rows);
  } catch (const ArgumentError& error) {
    throw ArgumentError(fmt::format("{}: {}", printable(options.from), error.what()));
  }
  const std::string document = read_input(options.document, kMaxDocumentBytes);
  write_output(options.document, replace_functions(document, tables));
  return kOk;
}

int run(const Options& options) {
  if (!options.document.empty()) return write_document(options);
  if (!options.results.empty()) check_writable(std::filesystem::path(options.results) / "");
  const Target target = Target::parse(options.target);
  const ResultContext about = context(options, target);
  const std::filesystem::path file = std::filesystem::path(options.results) /
                                     fmt::format("functions_{}.json", file_stem(about.device));
  if (!options.results.empty()) check_results(file);
  const nlohmann::json rows = measure(options, target, about);
  if (options.json) print_json(rows);
  if (!options.results.empty()) merge_results(file, rows);
  for (const nlohmann::json& row : rows) {
    if (row.at("num_refused") > 0) return kCheckFailed;
  }
  return kOk;
}

}  // namespace

std::function<int()> define_functions(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("--target", options->target, "cpu, cuda, auto or a row of targets.def")
      ->capture_default_str();
  app.add_option("--only", options->only, "One op, e.g. gelu_erf");
  app.add_option("--samples", options->log2_samples, "2^this operands of the usual sizes an op")
      ->check(CLI::Range(8, 26))
      ->capture_default_str();
  add_file(app, "--results", options->results,
           "Folder whose functions_<device>.json takes the rows");
  app.add_option("--commit", options->commit, "What was measured, for the rows");
  auto* document = add_file(app, "--document", options->document,
                            "Measure nothing: put the tables of --from into this file");
  auto* from = add_file(app, "--from", options->from, "A functions_<device>.json");
  document->needs(from);
  from->needs(document);
  app.add_flag("--json", options->json, "Print JSON");
  app.footer(
      "Each op runs by itself on float32 and is compared with float64: the largest error in units "
      "of the\n"
      "last place of float32, after rounding to bf16 in those of bf16, the share of bf16 results "
      "that\n"
      "are not the nearest, and the largest error as a share of the bound that `run` and the tests "
      "allow.\n"
      "On a GPU also its cost: clocks of a multiprocessor for 128 results (an addition takes 1).\n"
      "Example: epifuse functions --document docs/numerics.md --from "
      "bench/results/functions_h200.json");
  return [options] { return run(*options); };
}

}  // namespace epifuse::cli
