// `epifuse emit`: the generated kernels of a graph.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "options.h"

namespace epifuse::cli {
namespace {

struct Options {
  GraphOptions graph;
  bool json = false;
  bool problems = false;
};

int run(const Options& options) {
  // Generated code is CUDA; without a GPU it is made for the default architecture all the same.
  const std::string target = options.graph.target == "auto" ? "cuda" : options.graph.target;
  nlohmann::json all = nlohmann::json::array();
  for (const std::string& file : options.graph.files()) {
    const Program program =
        compile(load_graph(file), Target::parse(target), options.graph.compile_options());
    const auto sources = options.problems ? program.problem_sources() : program.sources();
    if (sources.empty() && options.problems && !options.json) {
      fmt::print("// {}: {}\n", file, program.explain_problems());
    } else if (sources.empty() && !options.json) {
      fmt::print("// {}: target {} runs it without generated code\n", file, program.target().arch);
    }
    for (const auto& [name, text] : sources) {
      all.push_back({{"file", file}, {"kernel", name}, {"source", text}});
      if (!options.json) fmt::print("// ---- {}\n{}\n", name, text);
    }
  }
  if (options.json) fmt::print("{}\n", all.dump(2));
  return kOk;
}

}  // namespace

std::function<int()> define_emit(CLI::App& app) {
  auto options = std::make_shared<Options>();
  options->graph.add_to(app);
  app.add_flag("--json", options->json, "Print JSON: file, kernel, source");
  app.add_flag("--problems", options->problems,
               "Print the kernels of many problems, each of its own sizes (Program::run_problems)");
  app.footer("Example: epifuse emit examples/ffn_down.epi --target sm_90a > ffn_down.cu");
  return [options] { return run(*options); };
}

}  // namespace epifuse::cli
