// `epifuse emit`: the generated kernels of a graph.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "command.h"
#include "failure.h"
#include "options.h"
#include "output.h"

namespace epifuse::cli {
namespace {

struct Options {
  GraphOptions graph;
  bool json = false;
  bool problems = false;
};

// Prints the kernels, or adds them to `all` for JSON.
void emit(const std::string& file, const Target& target, const Options& options,
          nlohmann::json& all) {
  const Program program = compile(load_graph(file), target, options.graph.compile_options());
  const auto sources = options.problems ? program.problem_sources() : program.sources();
  if (sources.empty() && options.problems && !options.json) {
    fmt::print("// {}: {}\n", printable(file), program.explain_problems());
  } else if (sources.empty() && !options.json) {
    fmt::print("// {}: target {} runs it without generated code\n", printable(file),
               program.target().arch);
  }
  for (const auto& [name, text] : sources) {
    all.push_back({{"file", file}, {"kernel", name}, {"source", text}});
    if (!options.json) fmt::print("// ---- {}\n{}\n", name, text);
  }
}

int run(const Options& options) {
  // Generated code is CUDA; without a GPU it is made for the default architecture all the same.
  const Target target =
      Target::parse(options.graph.target == "auto" ? "cuda" : options.graph.target);
  nlohmann::json all = nlohmann::json::array();
  int code = kOk;
  for (const std::string& file : options.graph.files()) {
    const auto failure = attempt([&] { emit(file, target, options, all); });
    if (!failure) continue;
    all.push_back({{"file", file}, {"error", failure->message}});
    code = std::max<int>(code, failure->code);
  }
  if (options.json) print_json(all);
  return code;
}

}  // namespace

std::function<int()> define_emit(CLI::App& app) {
  auto options = std::make_shared<Options>();
  options->graph.add_to(app);
  app.add_flag("--json", options->json, "Print JSON: file, kernel, source, or file, error");
  app.add_flag("--problems", options->problems,
               "Print the kernels of many problems, each of its own sizes (Program::run_problems)");
  app.footer("Example: epifuse emit examples/ffn_down.epi --target cuda > ffn_down.cu");
  return [options] { return run(*options); };
}

}  // namespace epifuse::cli
