// `epifuse emit`: the generated kernels of a graph.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "backends/cuda/prepare/sources.h"
#include "backends/cuda/run/pointer_arrays.h"
#include "backends/target.h"
#include "base/printable.h"
#include "bundle.h"
#include "command.h"
#include "compile/compile.h"
#include "failure.h"
#include "options.h"
#include "output.h"

namespace epifuse::cli {
namespace {

struct Options {
  GraphOptions graph;
  std::string bundle;
  bool json = false, all = false, pointer_arrays = false;
};

// What the files come to.
struct Emitted {
  nlohmann::json rows = nlohmann::json::array();
  SourceFiles sources;
};

// The kernels to print; nothing is compiled, so that no compiler is needed.
SourceFiles sources_of(const Graph& graph, const Target& target, const Options& options) {
  plan::Plans plans;
  const CompileOptions compiling = options.graph.compile_options();
  const auto plan = checked_plan(graph, target, compiling, plans);
  const cuda::Prepared prepared =
      cuda::prepare_uncompiled(*plan, target_info(target), compiling.fuse, compiling.family);
  SourceFiles out;
  const auto sources =
      options.all ? cuda::all_sources(prepared)
                  : cuda::chosen_sources(prepared, options.graph.sizes(), target_info(target),
                                         targets::reference_profile(target_info(target)));
  for (const cuda::NamedSource& each : sources) out.emplace_back(each.file, each.source.text);
  return out;
}

// Those of many problems, or why there are none.
SourceFiles pointer_array_sources(const std::string& file, const Graph& graph, const Target& target,
                                  const Options& options) {
  plan::Plans plans;
  const auto plan = checked_plan(graph, target, options.graph.compile_options(), plans);
  const cuda::Prepared prepared =
      cuda::prepare_uncompiled(*plan, target_info(target), true, options.graph.family);
  const cuda::PointerArrayRunner runner(prepared, target_info(target), nullptr);
  if (runner.why_not() && !options.json) {
    fmt::print("// {}: problems run one after another: {}\n", printable(file),
               runner.why_not()->sentence);
  }
  return runner.sources();
}

// Prints the kernels, or adds them for JSON and the bundle.
void emit(const GraphFile& file, const Target& target, const Options& options, Emitted& emitted) {
  if (target.kind == DeviceKind::cpu) {
    if (!options.json) {
      fmt::print("// {}: target {} runs it without generated code\n", printable(file.path),
                 target.arch);
    }
    return;
  }
  const SourceFiles sources = options.pointer_arrays
                                  ? pointer_array_sources(file.path, *file.graph, target, options)
                                  : sources_of(*file.graph, target, options);
  if (sources.empty() && !options.pointer_arrays && !options.json) {
    fmt::print("// {}: the vendor's library runs all of it\n", printable(file.path));
  }
  for (const auto& [name, text] : sources) {
    emitted.rows.push_back({{"file", file.path}, {"kernel", name}, {"source", text}});
    emitted.sources.emplace_back(name, text);
    if (!options.json && options.bundle.empty()) fmt::print("// ---- {}\n{}\n", name, text);
  }
}

void bundle(const SourceFiles& sources, const Target& target, const Options& options) {
  const std::size_t headers = write_bundle(options.bundle, sources, target.arch);
  if (options.json) return;
  for (const auto& [name, text] : sources) fmt::print("{}\n", printable(name));
  fmt::print("{} kernel{} and {} headers are in {}. To compile them there by hand:\n{}",
             sources.size(), sources.size() == 1 ? "" : "s", headers, printable(options.bundle),
             compile_by_hand(target.arch));
}

int run(const Options& options) {
  // Generated code is CUDA; without a GPU it is made for the default architecture all the same.
  const Target target =
      Target::parse(options.graph.target == "auto" ? "cuda" : options.graph.target);
  Emitted emitted;
  int code = kOk;
  const std::vector<GraphFile> files = load_files(options.graph);
  for (const GraphFile& file : files) {
    auto failure = file.failure;
    if (file.graph) failure = attempt([&] { emit(file, target, options, emitted); });
    if (!failure) continue;
    const nlohmann::json error = to_json(*failure);
    if (files.size() == 1) {
      if (options.json) print_json(error);
      return failure->code;
    }
    emitted.rows.push_back({{"file", file.path}, {"error", error}});
    code = std::max<int>(code, failure->code);
  }
  if (!options.bundle.empty()) bundle(emitted.sources, target, options);
  if (options.json) print_json(emitted.rows);
  return code;
}

}  // namespace

std::function<int()> define_emit(CLI::App& app) {
  auto options = std::make_shared<Options>();
  options->graph.add_to(app);
  app.get_option("--target")->description(target_names() + "; auto is cuda here");
  app.add_flag("--json", options->json, "Print JSON: file, kernel, source, or file, error");
  app.add_flag("--all", options->all,
               "Print every kernel that is compiled ahead, not only those that would run");
  add_file(app, "--bundle", options->bundle,
           "Write the kernels and all headers they need into this folder instead");
  app.add_flag(
      "--pointer-arrays", options->pointer_arrays,
      "Print the kernels of many problems, each of its own sizes (Program::run_pointer_arrays)");
  app.footer(
      "Prints the kernel that the model of time chooses at the given sizes; symbols without a "
      "size\n"
      "are 4096. Needs no GPU and no compiler.\n"
      "Examples:\n"
      "  epifuse emit examples/ffn_down.epi M=64 --target cuda > ffn_down.cu\n"
      "  epifuse emit examples/ffn_down.epi --all --bundle ffn_down");
  return [options] { return run(*options); };
}

}  // namespace epifuse::cli
