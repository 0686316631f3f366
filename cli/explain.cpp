// `epifuse explain`: the plan of a graph as a target runs it.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

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

// The graph after each pass that changed it.
void print_passes(const Graph& graph, const CompileOptions& options) {
  fmt::print("# as given\n{}\n", ir::print(graph.ir()));
  passes::run_all(graph.ir(), options.numerics,
                  [](const passes::Pass& pass, const ir::Graph& after) {
                    fmt::print("# after {}: {}\n{}\n", pass.name, pass.summary, ir::print(after));
                  });
}

void explain(const Graph& graph, const Target& target, const Options& options) {
  if (options.passes) print_passes(graph, options.graph.compile_options());
  const Program program = compile(graph, target, options.graph.compile_options());
  const Sizes sizes = options.graph.sizes();
  const std::string text = options.json ? program.explain_json(sizes, options.machine) + "\n"
                                        : program.explain(sizes, options.machine);
  fmt::print("{}", text);
}

int run(const Options& options) {
  const Target target = Target::parse(options.graph.target);
  int code = kOk;
  for (const GraphFile& file : load_files(options.graph)) {
    auto failure = file.failure;
    if (file.graph) failure = attempt([&] { explain(*file.graph, target, options); });
    if (!failure) continue;
    if (options.json) print_json(to_json(*failure));
    code = std::max<int>(code, failure->code);
  }
  return code;
}

}  // namespace

std::function<int()> define_explain(CLI::App& app) {
  auto options = std::make_shared<Options>();
  options->graph.add_to(app);
  app.add_option("--machine", options->machine,
                 "Whose limits the expected times are for, e.g. h200 (docs/explain.md)");
  app.add_flag("--passes", options->passes, "Print the graph after each pass that changed it");
  app.add_flag("--json", options->json, "Print JSON");
  app.footer("Example: epifuse explain examples/bert_base_ffn.epi M=512 --target cuda");
  return [options] { return run(*options); };
}

}  // namespace epifuse::cli
