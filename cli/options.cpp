#include "options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <set>

#include "base/printable.h"
#include "epifuse/error.h"
#include "files.h"
#include "ir/graph.h"
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
  if (error != std::errc() || end != digits.data() + digits.size() || value < 0) {
    throw ArgumentError(
        fmt::format("sizes: expected 0 to 2^63 - 1, such as M=4096, got '{}'", printable(word)));
  }
  return {word.substr(0, length), value};
}

// What was perhaps meant by a word with `=` that is no size and no file.
std::string meant(const std::string& word) {
  const std::size_t equals = word.find('=');
  const bool symbol = equals != std::string::npos && ir::is_identifier(word.substr(0, equals));
  return symbol ? "; as a size it would be SYMBOL=INTEGER, such as M=4096" : "";
}

std::string read_graph(const std::string& path) {
  try {
    return read_input(path, ir::kMaxTextBytes);
  } catch (const ArgumentError& error) {
    throw ArgumentError(error.what() + meant(path));
  }
}

}  // namespace

std::string target_names() {
  std::vector<std::string_view> names{"auto", "cuda"};
  for (const targets::TargetInfo& row : targets::all_targets()) names.push_back(row.name);
  return fmt::format("One of {}", fmt::join(names, ", "));
}

void GraphOptions::add_to(CLI::App& app) {
  app.add_option("FILE-AND-SIZES", words, "Graphs (.epi) and sizes of their symbols: M=4096")
      ->required();
  app.add_option("--target", target, target_names())->capture_default_str();
  app.add_option("--numerics", numerics, "fast, exact or approx (docs/numerics.md)")
      ->capture_default_str()
      ->check(CLI::IsMember({"fast", "exact", "approx"}));
  app.add_flag("--tf32", tf32, "GPUs may multiply float32 matrices as TF32 (10 mantissa bits)");
}

std::vector<std::string> GraphOptions::files() const {
  std::vector<std::string> out;
  for (const std::string& word : words) {
    if (symbol_length(word) == 0) out.push_back(word);
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
  for (const Numerics level : {Numerics::fast, Numerics::exact, Numerics::approx}) {
    if (numerics == epifuse::name(level)) options.numerics = level;
  }
  return options;
}

Graph load_graph(const std::string& path) {
  const std::string text = read_graph(path);
  try {
    return Graph::parse(text);
  } catch (const ParseError& error) {
    throw ParseError(fmt::format("{}: {}", printable(path), error.what()), error.line,
                     error.column);
  } catch (const GraphError& error) {
    throw GraphError(fmt::format("{}: {}", printable(path), error.what()));
  }
}

Sizes complete_sizes(const Graph& graph, const Sizes& given) {
  std::set<std::string> symbols;
  for (const ir::Node& node : graph.ir().nodes) {
    if (node.op != ir::Op::input) continue;
    for (const std::vector<Dim>* dims : {&node.type.shape, &node.type.strides}) {
      for (const Dim& dim : *dims) {
        for (std::string& symbol : dim.symbols()) symbols.insert(std::move(symbol));
      }
    }
  }
  Sizes out;
  for (const std::string& symbol : symbols) {
    const auto found = given.find(symbol);
    out[symbol] = found == given.end() ? kDefaultSize : found->second;
  }
  return out;
}

}  // namespace epifuse::cli
