// `epifuse run`: compiles graphs, runs them, checks against float64, times fused against unfused.
#include <fmt/format.h>
#include <fmt/ranges.h>

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

struct Report {
  std::string file, graph, target, numerics;
  Sizes sizes;
  int num_kernels = 0, num_left_out = 0;
  std::vector<std::string> how;     // a kernel each, as chosen for these tensors
  std::vector<std::string> tuned;   // what was measured to be best, a line each
  std::vector<std::string> splits;  // why a fused kernel could not run on these tensors
  double compile_seconds = 0;
  std::vector<reference::Verdict> verdicts;
  double fused_us = 0, unfused_us = 0;
  bool ok() const {
    return std::all_of(verdicts.begin(), verdicts.end(), [](const auto& v) { return v.ok(); });
  }
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
          const Options& options, Report& report) {
  const Progress progress("timing");
  CompileOptions unfused_options = options.graph.compile_options();
  unfused_options.fuse = false;
  const Program unfused = compile(graph, program.target(), unfused_options);
  const auto us = time_interleaved(
      program.target(),
      {[&] { program.run(tensors.bindings()); }, [&] { unfused.run(tensors.bindings()); }},
      options.rounds, options.seconds);
  report.fused_us = us[0];
  report.unfused_us = us[1];
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

Report run_graph(const std::string& file, const Graph& graph, const Options& options) {
  const Target target = Target::parse(options.graph.target);
  Report report{file, graph.ir().name, target.arch, options.graph.numerics};
  report.sizes = complete_sizes(graph, options.graph.sizes());
  std::optional<Program> program;
  report.compile_seconds = seconds_of([&] {
    const Progress progress("compiling");
    program = compile(graph, target, options.graph.compile_options());
  });
  const backends::Executable& executable = *program->state().executable;
  report.num_left_out = static_cast<int>(executable.plan().left_out.size());
  HostTensors host(graph.ir(), report.sizes, {input_files(options.inputs), options.seed});
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

std::string sizes_text(const Sizes& sizes) {
  std::vector<std::string> words;
  for (const auto& [symbol, size] : sizes) words.push_back(fmt::format("{}={}", symbol, size));
  return fmt::format("{}", fmt::join(words, " "));
}

void print_report(const Report& report) {
  fmt::print("{}  {}  target {}, numerics {}\n", report.graph, sizes_text(report.sizes),
             report.target, report.numerics);
  fmt::print("  plan     {} kernel{}, {} op{} left out of fusion\n", report.num_kernels,
             report.num_kernels == 1 ? "" : "s", report.num_left_out,
             report.num_left_out == 1 ? "" : "s");
  for (const std::string& how : report.how) fmt::print("           {}\n", how);
  for (const std::string& why : report.splits) {
    fmt::print("           run as product and tail on these tensors: {}\n", why);
  }
  fmt::print("  compile  {:.3f} s\n", report.compile_seconds);
  for (const std::string& line : report.tuned) fmt::print("  tune     {}\n", line);
  for (const reference::Verdict& verdict : report.verdicts) {
    fmt::print(
        "  check    {}: {}, largest error {:.3g} = {:.0f} % of what is allowed, {} elements\n",
        verdict.output, verdict.ok() ? "right" : "WRONG", verdict.max_error,
        100 * verdict.max_ratio, verdict.checked);
    if (!verdict.ok()) fmt::print("           {}\n", verdict.first_failure);
  }
  if (report.fused_us > 0) {
    fmt::print("  time     fused {:.1f} us, unfused {:.1f} us, ratio {:.3f}\n", report.fused_us,
               report.unfused_us, report.fused_us / report.unfused_us);
  }
}

void print_table(const std::vector<Report>& reports) {
  fmt::print("\n{:<28} {:<14} {:>7} {:>8} {:>10} {:>6} {:>12} {:>12} {:>6}\n", "graph", "sizes",
             "kernels", "compile", "error", "check", "unfused us", "fused us", "ratio");
  for (const Report& report : reports) {
    double error = 0;
    for (const auto& verdict : report.verdicts) error = std::max(error, verdict.max_ratio);
    fmt::print("{:<28} {:<14} {:>7} {:>6.2f} s {:>8.0f} % {:>6} {:>12.1f} {:>12.1f} {:>6.3f}\n",
               report.graph, sizes_text(report.sizes), report.num_kernels, report.compile_seconds,
               100 * error,
               report.verdicts.empty() ? "-"
               : report.ok()           ? "right"
                                       : "WRONG",
               report.unfused_us, report.fused_us,
               report.unfused_us > 0 ? report.fused_us / report.unfused_us : 0);
  }
  fmt::print(
      "kernels: launches of one run.  error: largest, in % of the bound computed from float64\n"
      "(docs/numerics.md).  ratio: fused / unfused time; below 1 fusion wins.\n");
}

nlohmann::json to_json(const Report& report) {
  nlohmann::json out{{"file", report.file},
                     {"graph", report.graph},
                     {"target", report.target},
                     {"numerics", report.numerics},
                     {"sizes", report.sizes},
                     {"kernels", report.num_kernels},
                     {"left_out", report.num_left_out},
                     {"how", report.how},
                     {"tuned", report.tuned},
                     {"splits", report.splits},
                     {"compile_seconds", report.compile_seconds},
                     {"ok", report.ok()},
                     {"outputs", nlohmann::json::array()}};
  for (const reference::Verdict& verdict : report.verdicts) {
    out["outputs"].push_back({{"name", verdict.output},
                              {"checked", verdict.checked},
                              {"failed", verdict.failed},
                              {"max_error", verdict.max_error},
                              {"max_error_over_allowed", verdict.max_ratio},
                              {"relative_error", verdict.relative_error},
                              {"first_failure", verdict.first_failure}});
  }
  if (report.fused_us > 0) {
    out["fused_us"] = report.fused_us;
    out["unfused_us"] = report.unfused_us;
    out["ratio"] = report.fused_us / report.unfused_us;
  }
  return out;
}

// One of the files: what became of it.
struct Job {
  std::string file;
  std::optional<Graph> graph;
  std::optional<Report> report;
  std::optional<Failure> failure;
};

nlohmann::json to_json(const Job& job) {
  if (job.report) return to_json(*job.report);
  return {{"file", job.file}, {"ok", false}, {"error", job.failure->message}};
}

std::vector<Job> load_jobs(const Options& options) {
  std::vector<Job> jobs;
  for (const std::string& file : options.graph.files()) {
    Job& job = jobs.emplace_back();
    job.file = file;
    job.failure = attempt([&] { job.graph = load_graph(file); });
  }
  return jobs;
}

// Before anything runs: the folder can be written in, and no output would replace another.
void prepare_saving(const std::string& folder, const std::vector<Job>& jobs) {
  make_output_folder(folder);
  const OutputFile probe(std::filesystem::path(folder) / "output.npy");  // nothing of it stays
  std::map<std::string, const Job*> writers;
  for (const Job& job : jobs) {
    if (!job.graph) continue;
    for (const ir::Output& output : job.graph->ir().outputs) {
      const auto [place, is_new] = writers.emplace(saved_name(*job.graph, output), &job);
      if (is_new) continue;
      throw ArgumentError(
          fmt::format("--save: {} and {} would both write {}: expected graphs of different names",
                      printable(place->second->file), printable(job.file), place->first));
    }
  }
}

int exit_code(const std::vector<Job>& jobs) {
  int code = kOk;
  for (const Job& job : jobs) {
    code = std::max<int>(code, job.failure        ? job.failure->code
                               : job.report->ok() ? kOk
                                                  : kCheckFailed);
  }
  return code;
}

int run(const Options& options) {
  Target::parse(options.graph.target);  // what is wrong with the arguments is said once
  options.graph.sizes();
  input_files(options.inputs);
  std::vector<Job> jobs = load_jobs(options);
  if (!options.save.empty()) prepare_saving(options.save, jobs);
  nlohmann::json all = nlohmann::json::array();
  std::vector<Report> reports;
  for (Job& job : jobs) {
    if (job.graph) {
      job.failure = attempt([&] { job.report = run_graph(job.file, *job.graph, options); });
    }
    if (job.report && !options.json) print_report(*job.report);
    if (job.report) reports.push_back(*job.report);
    all.push_back(to_json(job));
  }
  if (options.json) {
    print_json(all);
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
                 "NAME=FILE: an input or scalar from .npy or raw bytes");
  app.add_option("--seed", options->seed, "Of the random inputs")->capture_default_str();
  app.add_option("--save", options->save, "Folder for the outputs, as GRAPH.OUTPUT.npy");
  app.add_option("--rounds", options->rounds, "Timed rounds, at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--seconds", options->seconds, "Time for timing, about")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 86'400.0));
  app.add_flag("--tune", options->tune,
               "Measure all kernels for these tensors first, and keep the choice on disk");
  app.add_flag("!--no-check", options->check, "Do not check against float64");
  app.add_flag("!--no-time", options->time, "Do not time");
  app.add_flag("--json", options->json, "Print JSON");
  app.footer(
      "Symbols without a size are 512. Exit code 1 when a result is outside its bound; of several\n"
      "files each is run, also behind one that fails, and the largest code is taken.\n"
      "A word such as M=4096 is a size, any other with = is a file. A .npy holds f2, f4, f8 or "
      "b1,\n"
      "i4 or i8 for integers, or u2 with the bits of bf16; any other file is the memory itself.\n"
      "Examples:\n"
      "  epifuse run examples/ffn_down.epi M=4096\n"
      "  epifuse run examples/*.epi M=512 B=4 --target cpu\n"
      "  epifuse run g.epi M=17 --input x=x.npy --save out --numerics exact");
  return [options] { return run(*options); };
}

}  // namespace epifuse::cli
