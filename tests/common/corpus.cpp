// Reads the corpus and makes tensors for its graphs.
#include "tests/common/corpus.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "ir/integers.h"
#include "ir/text.h"
#include "ir/views.h"

namespace epifuse::testing {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// "M=17 N=8"
Sizes parse_sizes(const std::string& text) {
  Sizes sizes;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) throw std::runtime_error("expected NAME=SIZE, got " + word);
    sizes[word.substr(0, equals)] = std::stoll(word.substr(equals + 1));
  }
  return sizes;
}

// The rest of the line `# key: ...`, when there is one.
std::optional<std::string> directive(const std::string& text, const std::string& key) {
  const std::string start = "# " + key + ":";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(start)) return line.substr(start.size());
  }
  return std::nullopt;
}

struct DefaultSizes {
  std::vector<Sizes> all, empty;
};

DefaultSizes read_default_sizes(const std::filesystem::path& path) {
  DefaultSizes result;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with("#")) continue;
    const bool empty = line.starts_with("cpu ");
    (empty ? result.empty : result.all).push_back(parse_sizes(line.substr(empty ? 4 : 0)));
  }
  return result;
}

// The rows restricted to the graph's symbols, each once. A row that is not empty for this graph is
// no empty row.
std::vector<Sizes> restrict_to(const std::vector<std::string>& symbols,
                               const std::vector<Sizes>& rows, bool only_empty) {
  std::vector<Sizes> result;
  for (const Sizes& row : rows) {
    Sizes own;
    bool is_empty = false;
    for (const std::string& symbol : symbols) {
      own[symbol] = row.at(symbol);
      is_empty = is_empty || own[symbol] == 0;
    }
    const bool known = std::find(result.begin(), result.end(), own) != result.end();
    if (!known && (is_empty || !only_empty)) result.push_back(own);
  }
  return result;
}

CorpusCase load_case(const std::filesystem::path& path, const DefaultSizes& defaults) {
  CorpusCase result;
  result.name = path.stem().string();
  result.text = read_file(path);
  if (const auto rows = directive(result.text, "sizes")) {
    std::istringstream parts(*rows);
    for (std::string part; std::getline(parts, part, ';');) {
      result.sizes.push_back(parse_sizes(part));
    }
  } else {
    const std::vector<std::string> symbols = ir::size_symbols(ir::parse(result.text));
    result.sizes = restrict_to(symbols, defaults.all, false);
    result.empty_sizes = restrict_to(symbols, defaults.empty, true);
  }
  if (const auto words = directive(result.text, "special")) {
    std::istringstream stream(*words);
    for (std::string word; stream >> word;) result.special.push_back(std::stod(word));
  }
  if (const auto pad = directive(result.text, "pad")) result.pad = std::stoll(*pad);
  if (const auto margin = directive(result.text, "margin")) result.margin = std::stoll(*margin);
  if (const auto words = directive(result.text, "column_major")) {
    std::istringstream stream(*words);
    for (std::string word; stream >> word;) result.column_major.insert(word);
  }
  result.cpu_only = directive(result.text, "targets").has_value();
  return result;
}

// Strides of a tensor whose rows are `pad` elements longer than needed, or those declared: symbolic
// ones are laid out from the last dim on, behind the dims with known strides.
std::vector<std::int64_t> choose_strides(const ir::TensorType& type,
                                         const std::vector<std::int64_t>& shape, std::int64_t pad) {
  const std::size_t rank = shape.size();
  std::vector<std::int64_t> strides(rank, 1);
  std::int64_t extent = 1;
  for (std::size_t d = 0; d < type.strides.size(); ++d) {
    if (const auto known = type.strides[d].constant()) {
      strides[d] = *known;
      extent = std::max(extent, (shape[d] - 1) * *known + 1);
    }
  }
  for (std::size_t d = rank; d-- > 0;) {
    const bool is_known = !type.strides.empty() && type.strides[d].constant();
    if (is_known) continue;
    const bool is_unit = type.strides.empty() && d + 1 == rank;
    if (!is_unit) extent += pad;
    strides[d] = is_unit ? 1 : std::max<std::int64_t>(extent, 1);
    extent = strides[d] * std::max<std::int64_t>(shape[d], 1);
  }
  return strides;
}

// Strides of an output as the case asks: its last two dims change their places in memory where it
// is column-major.
std::vector<std::int64_t> output_strides(const CorpusCase& from, const std::string& name,
                                         const ir::TensorType& type,
                                         std::vector<std::int64_t> shape) {
  const bool swap = from.column_major.count(name) > 0 && shape.size() >= 2;
  const auto swap_last_two = [](std::vector<std::int64_t>& x) {
    std::swap(x.end()[-1], x.end()[-2]);
  };
  if (swap) swap_last_two(shape);
  std::vector<std::int64_t> strides = choose_strides(type, shape, from.pad);
  if (swap) swap_last_two(strides);
  return strides;
}

// Deviation of an input's elements, so that products of any K have magnitudes around 1.
double deviation_of(const ir::Graph& graph, ir::ValueId input, const Sizes& sizes) {
  double deviation = 1;
  for (const ir::Node& node : graph.nodes) {
    if (!ir::is_matmul(node.op) || ir::storage(graph, node.args[1]) != input) continue;
    const ir::Shape& b = graph[node.args[1]].type.shape;
    const std::int64_t k = b[b.size() - (node.transpose_b ? 1 : 2)].eval(sizes);
    deviation = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(k, 1)));
  }
  return deviation;
}

void sprinkle(HostTensor& tensor, const std::vector<double>& special, std::mt19937_64& random) {
  constexpr std::uint64_t kOneIn = 61;
  if (!is_float(tensor.dtype())) return;
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    if (random() % kOneIn == 0) tensor.set(i, special[random() % special.size()]);
  }
}

// Both ends of the range among numbers that are not zero on average: long sums leave 24 bits.
void fill_i8(HostTensor& tensor, std::mt19937_64& random) {
  std::normal_distribution<double> normal(32, 48);
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    const std::uint64_t turn = random() % 64;
    tensor.set(i, turn == 0 ? -128 : turn == 1 ? 127 : normal(random));
  }
}

void fill_input(HostTensor& tensor, double deviation, std::mt19937_64& random) {
  if (tensor.dtype() == DType::i8) return fill_i8(tensor, random);
  if (tensor.dtype() != DType::boolean) {
    tensor.fill_normal(random, deviation);
    return;
  }
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    tensor.set(i, static_cast<double>(random() % 2));
  }
}

void fill_integers(HostTensor& tensor, const ir::IntegerUse& use, const Sizes& sizes,
                   std::mt19937_64& random) {
  const auto values = ir::sample_integers(use, tensor.size(), sizes, random);
  tensor.fill({values.begin(), values.end()});
}

}  // namespace

std::vector<CorpusCase> load_corpus(const std::filesystem::path& folder,
                                    const std::string& filter) {
  const DefaultSizes defaults = read_default_sizes(folder / "sizes.txt");
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const bool wanted = entry.path().stem().string().find(filter) != std::string::npos;
    if (entry.path().extension() == ".epi" && wanted) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end(),
            [](const auto& a, const auto& b) { return a.stem() < b.stem(); });
  std::vector<CorpusCase> cases;
  for (const std::filesystem::path& path : paths) {
    cases.push_back(load_case(path, defaults));
    // A result is known by its graph's name alone, in whatever folder the graph is.
    if (cases.size() > 1 && cases[cases.size() - 2].name == cases.back().name) {
      throw std::runtime_error("two graphs of the corpus have the name " + cases.back().name);
    }
  }
  return cases;
}

CorpusTensors make_tensors(const ir::Graph& graph, const CorpusCase& from, const Sizes& sizes,
                           bool with_special, std::uint64_t seed) {
  CorpusTensors result;
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const ir::Node& node = graph.nodes[i];
    if (node.op == ir::Op::scalar) {
      result.scalars.emplace_back(node.name, 0.5 + static_cast<double>(random() % 8) / 8);
    }
    if (node.op != ir::Op::input) continue;
    const std::vector<std::int64_t> shape = ir::eval(node.type.shape, sizes);
    HostTensor tensor(node.type.dtype, shape, choose_strides(node.type, shape, from.pad),
                      from.margin);
    const auto id = static_cast<ir::ValueId>(i);
    if (is_integer(node.type.dtype)) {
      fill_integers(tensor, ir::use_of_integers(graph, id), sizes, random);
    } else {
      fill_input(tensor, deviation_of(graph, id, sizes), random);
    }
    if (with_special) sprinkle(tensor, from.special, random);
    result.names.push_back(node.name);
    result.tensors.push_back(std::move(tensor));
    result.is_output.push_back(false);
  }
  for (const ir::Output& output : graph.outputs) {
    const ir::TensorType type{graph[output.value].type.dtype, graph[output.value].type.shape, {}};
    const std::vector<std::int64_t> shape = ir::eval(type.shape, sizes);
    result.names.push_back(output.name);
    result.tensors.emplace_back(type.dtype, shape, output_strides(from, output.name, type, shape),
                                from.margin);
    result.is_output.push_back(true);
  }
  return result;
}

std::string text_of(const Sizes& sizes) {
  std::string text;
  for (const auto& [symbol, size] : sizes) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", symbol, size);
  }
  return text;
}

}  // namespace epifuse::testing
