// `epifuse explain`: the plan of a graph as a target runs it.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "command.h"
#include "failure.h"
#include "ir/text.h"
#include "options.h"
#include "output.h"
#include "passes/pipeline.h"

namespace epifuse::cli {
namespace {

struct Options {
  GraphOptions graph;
  std::string machine;
  bool json = false, passes = false;
};

using Json = nlohmann::ordered_json;

// The graph after each pass that changed it.
void print_passes(const Graph& graph, const CompileOptions& options) {
  fmt::print("# as given\n{}\n", ir::print(graph.ir()));
  passes::run_all(graph.ir(), options.numerics,
                  [](const passes::Pass& pass, const ir::Graph& after) {
                    fmt::print("# after {}: {}\n{}\n", pass.name, pass.summary, ir::print(after));
                  });
}

Json passes_json(const Graph& graph, const CompileOptions& options) {
  Json out = Json::array();
  passes::run_all(
      graph.ir(), options.numerics, [&](const passes::Pass& pass, const ir::Graph& after) {
        out.push_back(
            {{"pass", pass.name}, {"summary", pass.summary}, {"graph", ir::print(after)}});
      });
  return out;
}

void explain(const GraphFile& file, const Target& target, const Options& options, Json& all) {
  const CompileOptions compile_options = options.graph.compile_options();
  if (options.passes && !options.json) print_passes(*file.graph, compile_options);
  const Program program = compile(*file.graph, target, compile_options);
  const Sizes sizes = options.graph.sizes();
  if (!options.json) return fmt::print("{}", program.explain(sizes, options.machine));
  Json explained{{"file", file.path}};
  explained.update(Json::parse(program.explain_json(sizes, options.machine)));
  if (options.passes) explained["passes"] = passes_json(*file.graph, compile_options);
  all.push_back(std::move(explained));
}

int run(const Options& options) {
  const Target target = Target::parse(options.graph.target);
  const std::vector<GraphFile> files = load_files(options.graph);
  int code = kOk;
  Json all = Json::array();
  for (const GraphFile& file : files) {
    auto failure = file.failure;
    if (file.graph) failure = attempt([&] { explain(file, target, options, all); });
    if (!failure) continue;
    const Json error = to_json(*failure);
    all.push_back(files.size() == 1 ? error : Json{{"file", file.path}, {"error", error}});
    code = std::max<int>(code, failure->code);
  }
  if (options.json) print_json_in_order(files.size() == 1 ? all.front() : all);
  return code;
}

}  // namespace

std::function<int()> define_explain(CLI::App& app) {
  auto options = std::make_shared<Options>();
  options->graph.add_to(app);
  app.add_option("--machine", options->machine,
                 "Whose limits the expected times are for, e.g. h200 (docs/explain.md)");
  app.add_flag("--passes", options->passes, "Print the graph after each pass that changed it");
  app.add_flag("--json", options->json, "Print JSON: an object, of several files a list of them");
  app.footer("Example: epifuse explain examples/bert_base_ffn.epi M=512 --target cuda");
  return [options] { return run(*options); };
}

}  // namespace epifuse::cli
