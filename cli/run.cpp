// `epifuse run`: compiles graphs, runs them, checks against float64, times fused against unfused.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "backends/reference/evaluate.h"
#include "base/printable.h"
#include "check/verify_program.h"
#include "command.h"
#include "compile/program_state.h"
#include "epifuse/error.h"
#include "failure.h"
#include "files.h"
#include "npy.h"
#include "options.h"
#include "output.h"
#include "run_report.h"
#include "tensors.h"
#include "timing.h"

namespace epifuse::cli {
namespace {

// Elements checked of an output; of larger ones whole rows are picked.
constexpr std::int64_t kMostChecked = std::int64_t{1} << 21;

struct Options {
  GraphOptions graph;
  std::vector<std::string> inputs;  // NAME=FILE
  std::uint64_t seed = 1;
  std::string save;
  int rounds = 300;
  double seconds = 2.0;
  bool check = true, time = true, tune = false, json = false;
};

std::map<std::string, std::string> input_files(const std::vector<std::string>& words) {
  std::map<std::string, std::string> out;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw ArgumentError(fmt::format("--input: expected NAME=FILE, got '{}'", printable(word)));
    }
    const auto [place, is_new] = out.emplace(word.substr(0, equals), word.substr(equals + 1));
    if (!is_new) {
      throw ArgumentError(fmt::format("--input: expected one file for {}, got {} and {}",
                                      printable(place->first), printable(place->second),
                                      printable(word.substr(equals + 1))));
    }
  }
  return out;
}

double seconds_of(const std::function<void()>& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<reference::Verdict> check(const Program& program, TargetTensors& tensors,
                                      const HostTensors& host, std::uint64_t seed) {
  const Progress progress("checking against float64");
  tensors.poison_outputs();
  program.run(tensors.bindings());
  tensors.fetch_outputs();
  return verify_program(program, host.bindings(), tensors.bindings(), kMostChecked, seed);
}

void time(const Graph& graph, const Program& program, TargetTensors& tensors,
          const Options& options, RunReport& report) {
  const Progress progress("timing");
  CompileOptions unfused_options = options.graph.compile_options();
  unfused_options.fuse = false;
  const Program unfused = compile(graph, program.target(), unfused_options);
  report.time = compare_times(
      program.target(), [&] { program.run(tensors.bindings()); },
      [&] { unfused.run(tensors.bindings()); }, options.rounds, options.seconds);
}

std::string saved_name(const Graph& graph, const ir::Output& output) {
  return fmt::format("{}.{}.npy", graph.ir().name, output.name);
}

void save_outputs(const std::string& folder, const Graph& graph, const HostTensors& host) {
  for (const ir::Output& output : graph.ir().outputs) {
    write_npy((std::filesystem::path(folder) / saved_name(graph, output)).string(),
              host.view(output.name));
  }
}

HostTensors make_inputs(const Graph& graph, const Sizes& sizes, const Options& options) {
  const Progress progress("making inputs");
  return HostTensors(graph.ir(), sizes, {input_files(options.inputs), options.seed});
}

RunReport run_graph(const std::string& file, const Graph& graph, const Options& options) {
  const Target target = Target::parse(options.graph.target);
  RunReport report{file, graph.ir().name, target.arch, options.graph.numerics};
  report.sizes = complete_sizes(graph, options.graph.sizes());
  std::optional<Program> program;
  report.compile_seconds = seconds_of([&] {
    const Progress progress("compiling");
    program = compile(graph, target, options.graph.compile_options());
  });
  const backends::Executable& executable = *program->state().executable;
  report.num_left_out = static_cast<int>(executable.plan().left_out.size());
  HostTensors host = make_inputs(graph, report.sizes, options);
  TargetTensors tensors(host, target);
  if (options.tune) {
    const Progress progress("tuning");
    report.tuned = program->tune(tensors.bindings());
  }
  const backends::RunPlan as_run =
      executable.plan_for(backends::bind(executable.plan(), tensors.bindings(), target.kind));
  report.num_kernels = target.kind == DeviceKind::cuda ? plan::num_kernels(as_run.plan)
                                                       : static_cast<int>(as_run.plan.steps.size());
  report.how = as_run.how;
  if (report.how.empty()) {
    for (const auto& step : executable.report()) report.how.push_back(step.how);
  }
  for (const plan::WhyNot& why : as_run.splits) report.splits.push_back(why.sentence);
  if (options.check) {
    report.verdicts = check(*program, tensors, host, options.seed);
  } else if (!options.save.empty()) {
    program->run(tensors.bindings());
    tensors.fetch_outputs();
  }
  if (!options.save.empty()) save_outputs(options.save, graph, host);
  if (options.time) time(graph, *program, tensors, options, report);
  return report;
}

// One of the files: what became of it.
struct Job {
  GraphFile file;
  std::optional<RunReport> report;
};

nlohmann::json to_json(const Job& job) {
  if (job.report) return to_json(*job.report);
  return {{"file", job.file.path}, {"ok", false}, {"error", to_json(*job.file.failure)}};
}

// Before anything runs: the folder can be written in, and no output would replace another.
void prepare_saving(const std::string& folder, const std::vector<Job>& jobs) {
  make_output_folder(folder);
  check_writable(std::filesystem::path(folder) / "");
  std::map<std::string, const Job*> writers;
  for (const Job& job : jobs) {
    const std::optional<Graph>& graph = job.file.graph;
    if (!graph) continue;
    for (const ir::Output& output : graph->ir().outputs) {
      const auto [place, is_new] = writers.emplace(saved_name(*graph, output), &job);
      if (is_new) continue;
      throw ArgumentError(
          fmt::format("--save: {} and {} would both write {}: expected graphs of different names",
                      printable(place->second->file.path), printable(job.file.path), place->first));
    }
  }
}

int exit_code(const std::vector<Job>& jobs) {
  int code = kOk;
  for (const Job& job : jobs) {
    code = std::max<int>(code, job.file.failure   ? job.file.failure->code
                               : job.report->ok() ? kOk
                                                  : kCheckFailed);
  }
  return code;
}

int run(const Options& options) {
  runnable_target(options.graph.target);  // what is wrong with the arguments is said once
  input_files(options.inputs);
  std::vector<Job> jobs;
  for (GraphFile& file : load_files(options.graph)) jobs.push_back({std::move(file), {}});
  if (!options.save.empty()) prepare_saving(options.save, jobs);
  nlohmann::json all = nlohmann::json::array();
  std::vector<RunReport> reports;
  for (Job& job : jobs) {
    if (job.file.graph) {
      job.file.failure =
          attempt([&] { job.report = run_graph(job.file.path, *job.file.graph, options); });
    }
    if (job.report && !options.json) print_report(*job.report);
    if (job.report) reports.push_back(*job.report);
    all.push_back(to_json(job));
  }
  if (options.json) {
    const auto& failure = jobs.front().file.failure;
    print_json(jobs.size() == 1 && failure ? to_json(*failure) : all);
  } else if (reports.size() > 1) {
    print_table(reports);
  }
  return exit_code(jobs);
}

}  // namespace

std::function<int()> define_run(CLI::App& app) {
  auto options = std::make_shared<Options>();
  options->graph.add_to(app);
  app.add_option("--input", options->inputs,
                 "NAME=FILE: an input or scalar from .npy or raw bytes; NAME=NUMBER: a scalar. "
                 "Takes all words up to the next option");
  add_seed(app, options->seed, "Of the random inputs");
  add_file(app, "--save", options->save, "Folder for the outputs, as GRAPH.OUTPUT.npy");
  app.add_option("--rounds", options->rounds, "Timed rounds, at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--seconds", options->seconds, "Time for timing, about")
      ->capture_default_str()
      ->check(seconds_to(86'400.0));
  app.add_flag("--tune", options->tune,
               "Measure all kernels for these tensors first, and keep the choice on disk");
  app.add_flag("!--no-check", options->check, "Do not check against float64");
  app.add_flag("!--no-time", options->time, "Do not time");
  app.add_flag("--json", options->json, "Print JSON");
  app.footer(
      "Symbols without a size are 512. Exit code 1 when a result is outside its bound; of several\n"
      "files each is run, also behind one that fails, and the largest code is taken.\n"
      "A word such as M=4096 is a size, any other is a file; M=4k is refused unless there is such "
      "a file.\n"
      "A .npy holds f2, f4, f8 or b1; i1 for i8, i4 or i8 for i32 and i64; u2 with the bits of "
      "bf16,\n"
      "u1 with those of fp8. Any other file is the memory itself.\n"
      "Examples:\n"
      "  epifuse run examples/ffn_down.epi M=4096\n"
      "  epifuse run examples/*.epi M=512 B=4 --target cpu\n"
      "  epifuse run g.epi M=17 --input x=x.npy --input alpha=0.5 --save out --numerics exact");
  return [options] { return run(*options); };
}

}  // namespace epifuse::cli
