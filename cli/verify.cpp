// `epifuse verify`: runs random graphs and checks each against the float64 reference.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "base/float_types.h"
#include "base/parallel.h"
#include "base/tune_mode.h"
#include "check/random_graph.h"
#include "check/verify_program.h"
#include "codegen/family.h"
#include "command.h"
#include "epifuse/error.h"
#include "files.h"
#include "ir/text.h"
#include "jit/jit.h"
#include "options.h"
#include "output.h"
#include "tensors.h"
#include "timing.h"

namespace epifuse::cli {
namespace {

struct Options {
  GraphOptions graph;  // the target, the numerics and the family; its graphs are random
  std::string last;
  std::int64_t num_graphs = 200;
  std::uint64_t seed = 1;
  bool print = false, json = false;
};

struct Failure {
  std::uint64_t seed = 0;
  std::string graph, sizes, what;
};

std::string sizes_text(const Sizes& sizes) {
  std::string text;
  for (const auto& [symbol, size] : sizes) text += fmt::format(" {}={}", symbol, size);
  return text;
}

// NaN, infinities, zeros of both signs, the largest number and subnormal ones, here and there.
void sprinkle(const HostTensors& host, std::uint64_t seed) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kSpecial[] = {std::numeric_limits<double>::quiet_NaN(),
                                 kInfinity,
                                 -kInfinity,
                                 0.0,
                                 -0.0,
                                 6e4,
                                 1e-39,
                                 -3e-6};
  constexpr std::uint64_t kOneIn = 97;
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < host.bindings().size(); ++i) {
    const TensorView& view = host.bindings()[i].view;
    if (host.is_output(i) || host.bytes(i) == 0 || !is_float(view.dtype)) continue;
    const auto count = static_cast<std::int64_t>(host.bytes(i) / size_bytes(view.dtype));
    for (std::int64_t at = 0; at < count; ++at) {
      if (random() % kOneIn == 0) store_element(view.data, view.dtype, at, kSpecial[random() % 8]);
    }
  }
}

// What is wrong, or nothing.
std::optional<std::string> check(const RandomGraph& random, const Target& target,
                                 const CompileOptions& options, std::uint64_t seed) {
  const Program program = compile(Graph::parse(ir::print(random.graph)), target, options);
  HostTensors host(random.graph, random.sizes, {{}, seed});
  if (random.has_special) sprinkle(host, seed);
  TargetTensors tensors(host, target);
  tensors.poison_outputs();
  program.run(tensors.bindings());
  tensors.fetch_outputs();
  for (const reference::Verdict& verdict :
       verify_program(program, host.bindings(), tensors.bindings())) {
    if (!verdict.ok()) return verdict.first_failure;
  }
  return passes_error(program, host.bindings());
}

Failure failure_of(std::uint64_t seed, const RandomGraph& random, std::string what) {
  return {seed, ir::print(random.graph), sizes_text(random.sizes), std::move(what)};
}

void print_failure(const Failure& failure, const Options& options) {
  const std::string& family = options.graph.family;
  fmt::print(
      "{}#{}\nWRONG: {}\nagain: epifuse verify --seed {} --graphs 1 --target {} "
      "--numerics {}{}\n\n",
      failure.graph, failure.sizes, failure.what, failure.seed, options.graph.target,
      options.graph.numerics, family.empty() ? "" : " --family " + family);
  std::fflush(stdout);  // a later graph may end the process
}

int print_graphs(const Options& options) {
  nlohmann::json all = nlohmann::json::array();
  for (std::int64_t i = 0; i < options.num_graphs; ++i) {
    const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(i);
    const RandomGraph random = random_graph(seed);
    const std::string graph = ir::print(random.graph), sizes = sizes_text(random.sizes);
    if (options.json) {
      all.push_back({{"seed", seed}, {"graph", graph}, {"sizes", sizes}});
    } else {
      fmt::print("{}#{}\n", graph, sizes);
    }
  }
  if (options.json) print_json(all);
  return kOk;
}

std::optional<Failure> run_one(std::uint64_t seed, const Options& options, const Target& target) {
  const RandomGraph random = random_graph(seed);
  if (!options.last.empty()) {
    write_output(options.last, fmt::format("{}#{}\n# --seed {}\n", ir::print(random.graph),
                                           sizes_text(random.sizes), seed));
  }
  try {
    if (auto wrong = check(random, target, options.graph.compile_options(), seed)) {
      return failure_of(seed, random, std::move(*wrong));
    }
  } catch (const UnavailableError&) {
    throw;  // of the machine, not of the graph
  } catch (const std::exception& error) {
    return failure_of(seed, random, error.what());
  }
  return std::nullopt;
}

nlohmann::json to_json(const std::vector<Failure>& failures, const Options& options) {
  nlohmann::json out{{"graphs", options.num_graphs},
                     {"seed", options.seed},
                     {"numerics", options.graph.numerics},
                     {"failures", nlohmann::json::array()}};
  for (const Failure& failure : failures) {
    out["failures"].push_back({{"seed", failure.seed},
                               {"graph", failure.graph},
                               {"sizes", failure.sizes},
                               {"what", failure.what}});
  }
  return out;
}

// Settings that are wrong would fail each graph.
void check_settings(const Target& target) {
  num_threads();
  tune_mode(std::nullopt);
  if (target.kind == DeviceKind::cuda) (void)jit::KernelCache{jit::KernelCache::default_folder()};
}

int run(const Options& options) {
  if (options.print) return print_graphs(options);
  codegen::check_family(options.graph.family);
  const Target target = runnable_target(options.graph.target);
  check_settings(target);
  if (!options.last.empty()) check_writable(options.last);
  std::vector<Failure> failures;
  {
    const Progress progress("running random graphs");
    for (std::int64_t i = 0; i < options.num_graphs; ++i) {
      const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(i);
      if (auto failure = run_one(seed, options, target)) {
        failures.push_back(std::move(*failure));
        if (!options.json) print_failure(failures.back(), options);
      }
    }
  }
  if (options.json) {
    print_json(to_json(failures, options));
  } else {
    const auto num_failed = static_cast<std::int64_t>(failures.size());
    fmt::print("{} passed, {} failed\n", options.num_graphs - num_failed, num_failed);
  }
  return failures.empty() ? kOk : kCheckFailed;
}

}  // namespace

std::function<int()> define_verify(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("--graphs", options->num_graphs, "How many")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  add_seed(app, options->seed, "Of the first graph; the next ones count up");
  options->graph.add_how(app);
  add_file(app, "--last", options->last, "File that gets each graph before it runs, for a crash");
  app.add_flag("--print", options->print, "Print the graphs instead of running them");
  app.add_flag("--json", options->json, "Print JSON");
  app.footer(
      "Runs graphs of all ops at sizes that kernels find hard, one in seven on inputs with NaN,\n"
      "infinities, -0 and subnormal numbers, and checks every result against float64.\n"
      "Example: epifuse verify --graphs 1000 --seed 7");
  return [options] { return run(*options); };
}

}  // namespace epifuse::cli
