// Runs the corpus, collects rows and prints them.
#include "tests/common/corpus_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "check/verify_program.h"
#include "compile/program_state.h"
#include "tests/common/corpus_pointer_arrays.h"

namespace epifuse::testing {
namespace {

std::vector<Binding> host_bindings(CorpusTensors& tensors) {
  std::vector<Binding> bindings = tensors.scalars;
  for (std::size_t i = 0; i < tensors.names.size(); ++i) {
    bindings.push_back(tensors.tensors[i].bind(tensors.names[i]));
  }
  return bindings;
}

std::vector<Binding> run_program(const Program& program, CorpusTensors& tensors, Memory& memory) {
  std::vector<Binding> placed = tensors.scalars;
  for (std::size_t i = 0; i < tensors.names.size(); ++i) {
    placed.emplace_back(tensors.names[i], memory.place(tensors.tensors[i]));
  }
  program.run(placed);
  for (std::size_t i = 0; i < tensors.names.size(); ++i) {
    if (tensors.is_output[i]) {
      memory.fetch(tensors.tensors[i], placed[tensors.scalars.size() + i].view);
    }
  }
  memory.clear();
  return placed;
}

// The first thing that is wrong with one run, or nothing.
std::string check_run(const Program& program, CorpusTensors& tensors, Memory& memory,
                      CorpusRow& row) {
  const std::vector<Binding> placed = run_program(program, tensors, memory);
  const std::vector<Binding> bindings = host_bindings(tensors);
  std::string failure;
  // What the passes did depends on no size: a few runs show it.
  constexpr int kNumPassChecks = 4;
  if (row.num_runs < kNumPassChecks) failure = passes_error(program, bindings).value_or("");
  for (std::size_t i = 0; i < tensors.names.size(); ++i) {
    if (!tensors.is_output[i] || tensors.tensors[i].gaps_untouched()) continue;
    failure = tensors.names[i] + ": bytes between or around its rows were written";
  }
  for (const reference::Verdict& verdict : verify_program(program, bindings, placed)) {
    row.num_elements += verdict.checked;
    row.max_ratio = std::max(row.max_ratio, verdict.max_ratio);
    row.relative_error = std::max(row.relative_error, verdict.relative_error);
    if (verdict.failed > 0 && failure.empty()) {
      failure = fmt::format("{} ({} of {} elements)", verdict.first_failure, verdict.failed,
                            verdict.checked);
    }
  }
  return failure;
}

struct Run {
  Sizes sizes;
  bool with_special;
};

std::vector<Run> runs_of(const CorpusCase& which, const Target& target, bool quick) {
  constexpr std::size_t kNumQuick = 2;
  std::vector<Run> runs;
  for (const Sizes& sizes : which.sizes) {
    if (quick && runs.size() >= kNumQuick) break;
    runs.push_back({sizes, false});
    if (!which.special.empty()) runs.push_back({sizes, true});
  }
  if (target.kind == DeviceKind::cpu) {
    for (const Sizes& sizes : which.empty_sizes) runs.push_back({sizes, false});
  }
  return runs;
}

void record(CorpusRow& row, const std::string& what, const std::string& failure) {
  ++row.num_runs;
  if (failure.empty()) return;
  ++row.num_failed;
  if (row.first_failure.empty()) row.first_failure = what + ": " + failure;
}

// Sizes once more as problems of one call. On CPUs, where that is one run after another, few, and
// of every fourth graph.
void run_pointer_arrays(const CorpusCase& which, const Program& program, Memory& memory, bool quick,
                        TimeLimit& limit, CorpusRow& row) {
  constexpr std::size_t kFew = 2, kMany = 12;
  const bool is_cpu = program.target().kind == DeviceKind::cpu;
  if (is_cpu && which.name.size() % 4 != 0) return;
  std::vector<Sizes> all = which.sizes;
  if (all.size() > (is_cpu || quick ? kFew : kMany)) all.resize(is_cpu || quick ? kFew : kMany);
  if (!which.empty_sizes.empty()) all.push_back(which.empty_sizes.front());
  limit.begin(which.name + " as problems");
  for (const ProblemOutcome& each : run_as_pointer_arrays(which, all, program, memory)) {
    record(row, "as a problem, " + text_of(each.sizes), each.failure);
  }
}

}  // namespace

CorpusRow run_case(const CorpusCase& which, const Target& target, const CompileOptions& options,
                   Memory& memory, bool quick, TimeLimit& limit) {
  CorpusRow row{which.name, options.numerics};
  const std::string level = fmt::format("{} {}", which.name, name(options.numerics));
  limit.begin(level);
  try {
    const Graph graph = Graph::parse(which.text);
    const Program program = compile(graph, target, options);
    row.num_steps = program.num_kernels();
    std::uint64_t seed = 1;
    for (const Run& run : runs_of(which, target, quick)) {
      CorpusTensors tensors = make_tensors(graph.ir(), which, run.sizes, run.with_special, seed++);
      const std::string what = text_of(run.sizes) + (run.with_special ? " special" : "");
      limit.begin(fmt::format("{} {}", level, what));
      std::string failure;
      try {
        failure = check_run(program, tensors, memory, row);
      } catch (const std::exception& error) {
        failure = error.what();
      }
      record(row, what, failure);
    }
    if (options.numerics == Numerics::fast) {
      run_pointer_arrays(which, program, memory, quick, limit, row);
    }
  } catch (const std::exception& error) {
    record(row, "compile", error.what());
  }
  return row;
}

std::string print_table(const std::vector<CorpusRow>& rows) {
  std::string text =
      fmt::format("{:<30} {:<7} {:>5} {:>5} {:>7} {:>11} {:>10} {:>10}\n", "graph", "level",
                  "steps", "runs", "failed", "elements", "err/allow", "rel error");
  for (const CorpusRow& row : rows) {
    text += fmt::format("{:<30} {:<7} {:>5} {:>5} {:>7} {:>11} {:>10.3f} {:>10.2e}\n", row.graph,
                        name(row.numerics), row.num_steps, row.num_runs, row.num_failed,
                        row.num_elements, row.max_ratio, row.relative_error);
    if (!row.first_failure.empty()) text += "    " + row.first_failure + "\n";
  }
  return text;
}

namespace {

struct Arguments {
  bool quick = false;
  std::size_t part = 0, num_parts = 1;
  std::chrono::seconds limit{0};  // of a run
  std::string only, family, table, folder;
};

// "3/16"
void parse_part(const std::string& text, Arguments& result) {
  if (std::sscanf(text.c_str(), "%zu/%zu", &result.part, &result.num_parts) == 2 &&
      result.part < result.num_parts) {
    return;
  }
  throw ArgumentError("--part expects I/N with I below N, got " + text);
}

void parse_limit(const std::string& text, Arguments& result) {
  int seconds = 0, length = 0;
  const bool is_number = std::sscanf(text.c_str(), "%d%n", &seconds, &length) == 1;
  if (!is_number || text.c_str()[length] != '\0' || seconds < 0) {
    throw ArgumentError("--limit expects seconds, 0 or more, got " + text);
  }
  result.limit = std::chrono::seconds(seconds);
}

// Throws ArgumentError.
Arguments parse_arguments(int argc, char** argv) {
  Arguments result;
  const std::vector<std::string> words(argv + 1, argv + argc);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool has_value = i + 1 < words.size();
    if (words[i] == "--quick") {
      result.quick = true;
    } else if (words[i] == "--only" && has_value) {
      result.only = words[++i];
    } else if (words[i] == "--part" && has_value) {
      parse_part(words[++i], result);
    } else if (words[i] == "--limit" && has_value) {
      parse_limit(words[++i], result);
    } else if (words[i] == "--family" && has_value) {
      result.family = words[++i];
    } else if (words[i] == "--table" && has_value) {
      result.table = words[++i];
    } else if (!words[i].starts_with("--") && result.folder.empty()) {
      result.folder = words[i];
    } else {
      throw ArgumentError("unknown argument " + words[i]);
    }
  }
  if (result.folder.empty()) {
    throw ArgumentError(
        "expected [--quick] [--only WORD] [--part I/N] [--family NAME] [--limit SECONDS] "
        "[--table FILE] FOLDER");
  }
  return result;
}

std::vector<CorpusRow> run_corpus(const Arguments& arguments, const Target& target,
                                  Memory& memory) {
  std::vector<Numerics> levels{Numerics::fast};
  if (!arguments.quick) levels.push_back(Numerics::exact);
  // On CPUs it computes what `fast` does, and more is allowed.
  const bool has_approx = target.kind != DeviceKind::cpu;
  if (!arguments.quick && has_approx) levels.push_back(Numerics::approx);
  std::vector<CorpusRow> rows;
  TimeLimit time_limit(arguments.limit);
  std::size_t index = 0;
  for (const CorpusCase& which : load_corpus(arguments.folder, arguments.only)) {
    if (index++ % arguments.num_parts != arguments.part) continue;
    if (which.cpu_only && target.kind != DeviceKind::cpu) continue;
    std::fprintf(stderr, "%s", fmt::format("\r{:<40}", which.name).c_str());
    for (Numerics numerics : levels) {
      CompileOptions options{numerics};
      options.family = arguments.family;
      rows.push_back(run_case(which, target, options, memory, arguments.quick, time_limit));
    }
  }
  std::fprintf(stderr, "\r%40s\r", "");
  return rows;
}

int report(const std::vector<CorpusRow>& rows, const Arguments& arguments) {
  int num_runs = 0, num_failed = 0;
  std::int64_t num_elements = 0;
  for (const CorpusRow& row : rows) {
    num_runs += row.num_runs;
    num_failed += row.num_failed;
    num_elements += row.num_elements;
  }
  const std::string text =
      print_table(rows) + fmt::format("{} elements checked\n{} passed, {} failed\n", num_elements,
                                      num_runs - num_failed, num_failed);
  std::printf("%s", text.c_str());
  if (!arguments.table.empty()) std::ofstream(arguments.table) << text;
  const bool is_missing = num_runs == 0 && arguments.num_parts == 1;
  return num_failed > 0 || is_missing ? 1 : 0;
}

}  // namespace

int run_tier(const Target& target, Memory& memory, int argc, char** argv) {
  try {
    const Arguments arguments = parse_arguments(argc, argv);
    return report(run_corpus(arguments, target, memory), arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    constexpr int kUsage = 2;
    return kUsage;
  }
}

}  // namespace epifuse::testing
