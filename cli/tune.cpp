// `epifuse tune`: measures graphs at many sizes and keeps what is fastest; choices as files.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/cuda/driver/device.h"
#include "base/measure.h"
#include "base/printable.h"
#include "command.h"
#include "epifuse/error.h"
#include "files.h"
#include "jit/jit.h"
#include "options.h"
#include "output.h"
#include "tune/exchange.h"
#include "tune_graph.h"

namespace epifuse::cli {
namespace {

struct Options {
  GraphOptions graph;
  std::vector<std::string> ranges;
  double budget_seconds = 60;
  std::string export_file, import_file;
  bool json = false;
};

tune::TuneStore store() { return tune::TuneStore(jit::KernelCache::default_folder()); }

// Of one symbol sizes may be many, of others one.
struct AllSizes {
  Sizes fixed;
  std::optional<SizeRange> range;
};

AllSizes sizes_of(const Options& options) {
  AllSizes out{options.graph.words.empty() ? Sizes{} : options.graph.sizes(), std::nullopt};
  for (const std::string& word : options.ranges) {
    SizeRange range = parse_size_range(word);
    if (out.fixed.contains(range.symbol) || (out.range && out.range->symbol == range.symbol)) {
      throw ArgumentError(fmt::format("--sizes: expected sizes of {} once", range.symbol));
    }
    if (range.sizes.size() == 1) {
      out.fixed[range.symbol] = range.sizes.front();
    } else if (out.range) {
      throw ArgumentError(
          fmt::format("--sizes: expected many sizes of one symbol, got some of {} "
                      "and of {}",
                      out.range->symbol, range.symbol));
    } else {
      out.range = std::move(range);
    }
  }
  return out;
}

std::vector<GraphFile> graphs_of(const Options& options, const AllSizes& sizes) {
  std::vector<GraphFile> files = load_files(options.graph);
  Sizes all = sizes.fixed;
  if (sizes.range) all[sizes.range->symbol] = 1;
  std::vector<const Graph*> graphs;
  for (const GraphFile& file : files) {
    if (file.graph) graphs.push_back(&*file.graph);
  }
  if (graphs.size() == files.size()) check_symbols(all, graphs);
  return files;
}

// A symbol that only some of the graphs have has many sizes in those.
std::optional<SizeRange> range_in(const Graph& graph, const std::optional<SizeRange>& range) {
  if (!range) return std::nullopt;
  const Sizes symbols = complete_sizes(graph, {});
  return symbols.contains(range->symbol) ? range : std::nullopt;
}

void say(const std::string& line) { fmt::print(stderr, "{}\n", printable_lines(line)); }

int tune_all(const Options& options, nlohmann::json& out) {
  const AllSizes sizes = sizes_of(options);
  const Target target = runnable_target(options.graph.target);
  if (target.kind != DeviceKind::cuda) {
    throw ArgumentError(
        "tune: expected a GPU as the target, got the CPU, where there is no choice");
  }
  std::vector<GraphFile> files = graphs_of(options, sizes);
  const auto start = std::chrono::steady_clock::now();
  int code = kOk;
  std::size_t left = files.size();
  for (GraphFile& file : files) {
    const double seconds =
        std::max(0.0, options.budget_seconds - seconds_since(start)) / static_cast<double>(left--);
    std::optional<TuneResult> result;
    if (file.graph) {
      const TuneJob job{file.path, *file.graph, sizes.fixed, range_in(*file.graph, sizes.range)};
      file.failure = attempt(
          [&] { result = tune_graph(job, target, options.graph.compile_options(), seconds, say); });
    }
    if (!result) {
      code = std::max<int>(code, file.failure->code);
      out["graphs"].push_back({{"file", file.path}, {"error", to_json(*file.failure)}});
      continue;
    }
    for (const std::string& wrong : result->wrong) say(wrong);
    if (!result->wrong.empty()) code = std::max<int>(code, kCheckFailed);
    out["graphs"].push_back({{"file", file.path},
                             {"measured", result->num_measured},
                             {"kept", result->num_kept},
                             {"complete", result->is_complete},
                             {"wrong", result->wrong},
                             {"choices", result->rows}});
    if (options.json) continue;
    if (result->rows.empty()) {
      fmt::print("{}: at these sizes there is no kernel to choose\n", printable(file.path));
      continue;
    }
    fmt::print("{}: {} sizes measured, choices kept for {}{}\n", printable(file.path),
               result->num_measured, result->num_kept,
               result->is_complete ? "" : "; it ended before all was known");
  }
  return code;
}

void import_from(const std::string& path, bool json, nlohmann::json& out) {
  tune::Imported imported;
  try {
    imported = tune::import_choices(read_input(path, kMaxDocumentBytes), store());
  } catch (const ArgumentError& error) {
    throw ArgumentError(fmt::format("--import {}: {}", printable(path), error.what()));
  }
  if (imported.lost > 0) {
    throw ArgumentError(fmt::format(
        "--import {}: {} of {} choices could not be kept in {}", printable(path), imported.lost,
        imported.added + imported.known + imported.lost, printable(store().folder().native())));
  }
  out["imported"] = {
      {"added", imported.added}, {"known", imported.known}, {"differ", imported.differ}};
  if (json) return;
  fmt::print("{}: {} choices added, {} known already{}\n", printable(path), imported.added,
             imported.known,
             imported.differ == 0
                 ? ""
                 : fmt::format(", {} of them as other choices, which stay", imported.differ));
}

void export_to(const std::string& path, bool json, nlohmann::json& out) {
  write_output(path, tune::export_choices(store()));
  out["exported"] = path;
  if (!json) fmt::print("{}: written\n", printable(path));
}

int run(const Options& options) {
  const bool has_graphs = !options.graph.words.empty();
  if (!has_graphs && options.export_file.empty() && options.import_file.empty()) {
    throw ArgumentError("tune: expected graphs, --export or --import, got none of them");
  }
  if (!has_graphs && !options.ranges.empty()) {
    throw ArgumentError("--sizes: expected graphs that have them, got none");
  }
  if (!options.export_file.empty()) {
    check_cache_readable(jit::KernelCache::default_folder());
    check_cache_readable(store().folder());
    check_writable(options.export_file);
  }
  nlohmann::json out = nlohmann::json::object();
  if (!options.import_file.empty()) import_from(options.import_file, options.json, out);
  const int code = has_graphs ? tune_all(options, out) : static_cast<int>(kOk);
  if (!options.export_file.empty()) export_to(options.export_file, options.json, out);
  if (options.json) print_json(out);
  return code;
}

}  // namespace

std::function<int()> define_tune(CLI::App& app) {
  auto options = std::make_shared<Options>();
  options->graph.target = "cuda";
  options->graph.add_to(app);
  app.get_option("FILE-AND-SIZES")->required(false);
  app.add_option("--sizes", options->ranges, "Many sizes of one symbol: M=1..8192, or M=1,8,64")
      ->allow_extra_args(false);  // words behind the first are graphs and sizes
  add_budget(app, options->budget_seconds, "For all graphs, about");
  add_file(app, "--export", options->export_file, "Write all choices of this machine to a file");
  add_file(app, "--import", options->import_file,
           "Add the choices of such a file; those that are known stay");
  app.add_flag("--json", options->json, "Print JSON");
  app.footer(
      "Candidates are compiled in parallel and timed with their epilogue, beside the vendor's\n"
      "product with a tail; results are compared, and those of the winners checked against\n"
      "float64. Of a range the sizes are found at which the winner changes. Choices are kept\n"
      "beside the kernel cache, for all programs of this user. Symbols without a size are 512.\n"
      "Examples:\n"
      "  epifuse tune examples/ffn_down.epi --sizes M=1..8192 --budget 60\n"
      "  epifuse tune --export choices.json\n"
      "  epifuse tune --import choices.json");
  return [options] { return run(*options); };
}

}  // namespace epifuse::cli
