#include "options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <charconv>
#include <filesystem>
#include <optional>
#include <set>

#include "backends/cuda/driver/device.h"
#include "base/did_you_mean.h"
#include "base/printable.h"
#include "base/text.h"
#include "epifuse/error.h"
#include "epifuse/tensor.h"
#include "files.h"
#include "ir/graph.h"
#include "ir/infer_scales.h"
#include "ir/limits.h"
#include "targets/targets.h"

namespace epifuse::cli {
namespace {

constexpr std::int64_t kDefaultSize = 512;

// Where a word is SYMBOL=INTEGER, the length of SYMBOL; 0: it is a path.
std::size_t symbol_length(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || !ir::is_identifier(word.substr(0, equals))) return 0;
  std::string_view digits = word.substr(equals + 1);
  if (digits.starts_with('-') || digits.starts_with('+')) digits.remove_prefix(1);
  const bool integer = !digits.empty() && digits.find_first_not_of("0123456789") == digits.npos;
  return integer ? equals : 0;
}

std::pair<std::string, std::int64_t> parse_size(const std::string& word, std::size_t length) {
  const std::string digits = word.substr(length + 1);
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size();
  if (!is_number || value < 0 || value > kMaxElements) {
    throw ArgumentError(
        fmt::format("sizes: expected 0 to 2^40, such as M=4096, got '{}'", printable(word)));
  }
  return {word.substr(0, length), value};
}

// Throws ArgumentError for a word such as M=1e3, which is neither a size nor a file: the sizes of a
// run would be others than were meant.
void check_is_file(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || !ir::is_identifier(word.substr(0, equals))) return;
  std::error_code ignored;
  if (std::filesystem::exists(word, ignored)) return;
  throw ArgumentError(fmt::format(
      "expected a size as SYMBOL=INTEGER, such as M=4096, or a file, got '{}'", printable(word)));
}

// Size symbols of the inputs, which give every size of the graph.
std::set<std::string> symbols_of(const Graph& graph) {
  std::set<std::string> symbols;
  for (const ir::Node& node : graph.ir().nodes) {
    if (node.op != ir::Op::input) continue;
    for (const std::vector<Dim>* dims : {&node.type.shape, &node.type.strides}) {
      for (const Dim& dim : *dims) {
        for (std::string& symbol : dim.symbols()) symbols.insert(std::move(symbol));
      }
    }
  }
  return symbols;
}

}  // namespace

std::string target_names() {
  std::vector<std::string_view> names{"auto", "cuda"};
  for (const targets::TargetInfo& row : targets::all_targets()) names.push_back(row.name);
  return fmt::format("One of {}", fmt::join(names, ", "));
}

Target runnable_target(const std::string& name) {
  Target target = Target::parse(name);
  if (target.kind == DeviceKind::cuda) cuda::Device::require();
  return target;
}

void GraphOptions::add_to(CLI::App& app) {
  app.add_option("FILE-AND-SIZES", words, "Graphs (.epi) and sizes of their symbols: M=4096")
      ->required();
  add_how(app);
  app.add_flag("--tf32", tf32, "GPUs may multiply float32 matrices as TF32 (10 mantissa bits)");
}

void GraphOptions::add_how(CLI::App& app) {
  app.add_option("--target", target, target_names())->capture_default_str();
  app.add_option("--numerics", numerics, "fast, exact or approx (docs/numerics.md)")
      ->capture_default_str()
      ->check(CLI::IsMember({"fast", "exact", "approx"}));
  app.add_option("--family", family, "The kernel family that GPUs use; `epifuse devices` has all");
}

std::vector<std::string> GraphOptions::files() const {
  std::vector<std::string> out;
  for (const std::string& word : words) {
    if (symbol_length(word) != 0) continue;
    check_is_file(word);
    out.push_back(word);
  }
  if (out.empty()) throw ArgumentError("expected a .epi file, got sizes only");
  return out;
}

Sizes GraphOptions::sizes() const {
  Sizes out;
  for (const std::string& word : words) {
    const std::size_t length = symbol_length(word);
    if (length == 0) continue;
    const auto [symbol, size] = parse_size(word, length);
    const auto [place, is_new] = out.emplace(symbol, size);
    if (!is_new) {
      throw ArgumentError(fmt::format("sizes: expected {} once, got {} and {}", printable(symbol),
                                      place->second, size));
    }
  }
  return out;
}

CompileOptions GraphOptions::compile_options() const {
  CompileOptions options;
  options.allow_tf32 = tf32;
  options.family = family;
  for (const Numerics level : {Numerics::fast, Numerics::exact, Numerics::approx}) {
    if (numerics == epifuse::name(level)) options.numerics = level;
  }
  return options;
}

void add_budget(CLI::App& app, double& seconds, const std::string& meaning) {
  static constexpr double kMost = 86'400, kMinute = 60;
  const auto to_seconds = [](std::string& text) {
    std::string_view digits = text;
    const double unit = digits.ends_with('m') ? kMinute : 1;
    if (digits.ends_with('m') || digits.ends_with('s')) digits.remove_suffix(1);
    const std::optional<double> number = parse_number(digits);
    if (!number || !(*number * unit >= 0 && *number * unit <= kMost)) {
      return fmt::format("expected 0 to {} seconds, as 60, 60s or 2m, got '{}'", kMost, text);
    }
    text = fmt::format("{}", *number * unit);
    return std::string();
  };
  app.add_option("--budget", seconds, meaning + ": 60, 60s or 2m")
      ->capture_default_str()
      ->transform(CLI::Validator(to_seconds, "SECONDS"));
}

void add_seed(CLI::App& app, std::uint64_t& seed, const std::string& meaning) {
  const auto check = [](const std::string& text) {
    std::uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [read, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && read == end) return std::string();
    return fmt::format("expected an integer from 0 to 2^64 - 1, got '{}'", text);
  };
  app.add_option("--seed", seed, meaning)
      ->capture_default_str()
      ->check(CLI::Validator(check, "0 to 2^64 - 1"));
}

CLI::Validator seconds_to(double most) {
  const auto check = [most](const std::string& text) {
    const std::optional<double> seconds = parse_number(text);
    if (seconds && *seconds >= 0 && *seconds <= most) return std::string();
    return fmt::format("expected 0 to {} seconds, got '{}'", most, text);
  };
  return CLI::Validator(check, fmt::format("0 to {}", most));
}

CLI::Option* add_file(CLI::App& app, const std::string& name, std::string& path,
                      const std::string& meaning) {
  const auto check = [](const std::string& text) {
    return text.empty() ? std::string("expected a name, got ''") : std::string();
  };
  return app.add_option(name, path, meaning)->check(CLI::Validator(check, ""));
}

Graph load_graph(const std::string& path) {
  const std::string text = read_input(path, ir::kMaxTextBytes);
  try {
    return Graph::parse(text);
  } catch (const ParseError& error) {
    throw ParseError(fmt::format("{}: {}", printable(path), error.what()), error.line,
                     error.column);
  } catch (const GraphError& error) {
    throw GraphError(fmt::format("{}: {}", printable(path), error.what()));
  }
}

std::vector<GraphFile> load_files(const GraphOptions& options) {
  const Sizes sizes = options.sizes();
  std::vector<GraphFile> files;
  std::vector<const Graph*> graphs;
  for (const std::string& path : options.files()) {
    GraphFile& file = files.emplace_back();
    file.path = path;
    file.failure = attempt([&] { file.graph = load_graph(path); });
  }
  for (const GraphFile& file : files) {
    if (file.graph) graphs.push_back(&*file.graph);
  }
  if (graphs.size() == files.size()) check_symbols(sizes, graphs);
  return files;
}

void check_symbols(const Sizes& given, const std::vector<const Graph*>& graphs) {
  std::set<std::string> symbols;
  for (const Graph* graph : graphs) symbols.merge(symbols_of(*graph));
  const std::vector<std::string_view> names(symbols.begin(), symbols.end());
  for (const auto& [symbol, size] : given) {
    if (symbols.contains(symbol)) continue;
    throw ArgumentError(
        fmt::format("sizes: got {}={}, but {} a size symbol {}{}; {}", printable(symbol), size,
                    graphs.size() == 1 ? "the graph does not have" : "none of the graphs has",
                    printable(symbol), did_you_mean(symbol, names),
                    names.empty() ? "all sizes are fixed"
                                  : fmt::format("there are: {}", fmt::join(names, ", "))));
  }
}

Sizes complete_sizes(const Graph& graph, const Sizes& given) {
  Sizes out;
  for (const std::string& symbol : symbols_of(graph)) {
    const auto found = given.find(symbol);
    out[symbol] = found == given.end() ? kDefaultSize : found->second;
  }
  ir::set_block_counts(graph.ir(), given, out);
  return out;
}

}  // namespace epifuse::cli
