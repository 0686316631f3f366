#include "options.h"

#include <fmt/format.h>

#include <charconv>
#include <set>

#include "base/file.h"
#include "epifuse/error.h"
#include "ir/graph.h"

namespace epifuse::cli {
namespace {

constexpr std::int64_t kDefaultSize = 512;

bool is_size(const std::string& word) { return word.find('=') != std::string::npos; }

std::pair<std::string, std::int64_t> parse_size(const std::string& word) {
  const std::size_t equals = word.find('=');
  const std::string digits = word.substr(equals + 1);
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!whole || value < 0 || !ir::is_identifier(word.substr(0, equals))) {
    throw ArgumentError(
        fmt::format("sizes: expected SYMBOL=INTEGER such as M=4096, got '{}'", word));
  }
  return {word.substr(0, equals), value};
}

}  // namespace

void GraphOptions::add_to(CLI::App& app) {
  app.add_option("FILE-AND-SIZES", words, "Graphs (.epi) and sizes of their symbols: M=4096")
      ->required();
  app.add_option("--target", target, "auto, cpu, cuda or sm_90a")->capture_default_str();
  app.add_option("--numerics", numerics, "fast, exact or approx (docs/numerics.md)")
      ->capture_default_str()
      ->check(CLI::IsMember({"fast", "exact", "approx"}));
  app.add_flag("--tf32", tf32, "GPUs may multiply float32 matrices as TF32 (10 mantissa bits)");
}

std::vector<std::string> GraphOptions::files() const {
  std::vector<std::string> out;
  for (const std::string& word : words) {
    if (!is_size(word)) out.push_back(word);
  }
  if (out.empty()) throw ArgumentError("expected a .epi file, got sizes only");
  return out;
}

Sizes GraphOptions::sizes() const {
  Sizes out;
  for (const std::string& word : words) {
    if (is_size(word)) out.insert(parse_size(word));
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
  const auto text = read_file(path);
  if (!text) throw ArgumentError(fmt::format("{}: cannot be read", path));
  try {
    return Graph::parse(*text);
  } catch (const ParseError& error) {
    throw ParseError(fmt::format("{}: {}", path, error.what()), error.line, error.column);
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
