// Options that several commands share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "epifuse/graph.h"
#include "epifuse/program.h"
#include "failure.h"

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace epifuse::cli {

// What --target takes, for its help.
std::string target_names();

// The target of that name, to run on. Throws ArgumentError for no target, and UnavailableError,
// with nothing compiled, for a GPU where there is none.
Target runnable_target(const std::string& name);

// What to compile and how: `FILE... SYMBOL=SIZE... --target --numerics`.
struct GraphOptions {
  std::vector<std::string>
      words;  // files and sizes, in any order; M=4096 is a size, M=a.epi a file
  std::string target = "auto";
  std::string numerics = "fast";
  bool tf32 = false;
  std::string family;  // empty: the one that suits the GPU

  void add_to(CLI::App& app);
  void add_how(CLI::App& app);             // of those, what graphs of the command's own need
  std::vector<std::string> files() const;  // ArgumentError when there is none
  Sizes sizes()
      const;  // ArgumentError on a symbol given twice, and an integer below 0 or above 2^63
  CompileOptions compile_options() const;
};

// `--budget`: seconds, as 60, 60s or 2m.
void add_budget(CLI::App& app, double& seconds, const std::string& meaning);

// `--seed`: all digits. CLI11 alone wraps what is below 0 or too large.
void add_seed(CLI::App& app, std::uint64_t& seed, const std::string& meaning);

// A number from 0 to `most`. CLI::Range takes NaN.
CLI::Validator seconds_to(double most);

// A file or a folder. An empty name is refused: it would count as none.
CLI::Option* add_file(CLI::App& app, const std::string& name, std::string& path,
                      const std::string& meaning);

// The graph in a file, of which the language's limit is read at most; ParseError's text gets the
// file's name in front.
Graph load_graph(const std::string& path);

// A file of the command line: its graph, or why there is none.
struct GraphFile {
  std::string path;
  std::optional<Graph> graph;
  std::optional<Failure> failure;  // reported already
};

// All files, one after another also behind one that fails. Throws ArgumentError for a size that
// names no symbol of any of the graphs; a file that failed might have had it.
std::vector<GraphFile> load_files(const GraphOptions& options);

// Throws ArgumentError for a size that names no symbol of any of the graphs.
void check_symbols(const Sizes& given, const std::vector<const Graph*>& graphs);

// The given sizes, plus a default for every symbol of the graph's inputs that has none; sizes that
// name no symbol of it are left out.
Sizes complete_sizes(const Graph& graph, const Sizes& given);

}  // namespace epifuse::cli
