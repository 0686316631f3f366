#include "bench_points.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/ceil_div.h"
#include "epifuse/error.h"
#include "ir/graph.h"

namespace epifuse::cli {
namespace {

constexpr std::array<std::string_view, 7> kLinearWords{"identity", "alpha",  "bias", "scale",
                                                       "residual", "preact", "e4m3"};

bool is_activation(const std::string& word) {
  return std::find(kLinearWords.begin(), kLinearWords.end(), word) == kLinearWords.end();
}

// act(gate) * up, spelled as models spell it.
Value swiglu(const Value& gate, const Value& up) { return silu(gate) * up; }
Value geglu_erf(const Value& gate, const Value& up) { return gelu_erf(gate) * up; }
Value geglu_tanh(const Value& gate, const Value& up) { return gelu_tanh(gate) * up; }
Value reglu(const Value& gate, const Value& up) { return relu(gate) * up; }
Value glu(const Value& gate, const Value& up) { return sigmoid(gate) * up; }
// Of gpt-oss, with its alpha and limit.
Value swiglu_oai(const Value& gate, const Value& up) {
  constexpr double kSwigluAlpha = 1.702, kLimit = 7;
  const Value g = clamp(gate, -std::numeric_limits<double>::infinity(), kLimit);
  const Value u = clamp(up, -kLimit, kLimit);
  return g * sigmoid(g * kSwigluAlpha) * (u + 1);
}

struct Gate {
  std::string_view word;
  Value (*apply)(const Value& gate, const Value& up);
};
constexpr Gate kGates[] = {
    {"swiglu", swiglu}, {"geglu_erf", geglu_erf},  {"geglu_tanh", geglu_tanh}, {"reglu", reglu},
    {"glu", glu},       {"swiglu_oai", swiglu_oai}};

bool is_gate(const std::string& word) {
  return std::any_of(std::begin(kGates), std::end(kGates),
                     [&](const Gate& gate) { return gate.word == word; });
}

// The two products in the point's layout with their biases, and its gate on them. Declares "z".
Value gated_product(const Point& point, Graph& graph, const Value& x) {
  const bool is_nn = has_layout(point, "nn"), is_separate = has_layout(point, "separate");
  const std::vector<std::string> words = epilogue_words(point);
  const auto has = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  const auto product = [&](const char* weight, const char* bias, std::int64_t n) {
    const std::vector<Dim> shape =
        is_nn ? std::vector<Dim>{point.k, n} : std::vector<Dim>{n, point.k};
    const Value w = graph.input(weight, point.dtype, shape);
    const Value h = matmul(x, is_nn ? w : transpose(w));
    return has("bias") ? h + graph.input(bias, point.dtype, {n}) : h;
  };
  const auto gate = std::find_if(std::begin(kGates), std::end(kGates), [&](const Gate& row) {
    return has(std::string(row.word).c_str());
  });
  if (is_separate) {
    const Value g = product("w", "b", point.n), u = product("v", "c", point.n);
    if (has("preact")) {
      graph.output("z", g);
      graph.output("zu", u);
    }
    return gate->apply(g, u);
  }
  const Value h = product("w", "b", 2 * point.n);
  if (has("preact")) graph.output("z", h);
  const Dim m("M");
  const std::int64_t n = point.n;
  const bool by_turns = has_layout(point, "interleaved");
  const Value g = slice(h, {{0, m}, by_turns ? Range{0, 2 * n, 2} : Range{0, n}});
  const Value u = slice(h, {{0, m}, by_turns ? Range{1, 2 * n, 2} : Range{n, 2 * n}});
  return gate->apply(g, u);
}

}  // namespace

const std::vector<Point>& all_points() {
  static const std::vector<Point> points = {
#define EPIFUSE_POINT(suite, workload, m, n, k, epilogue) {suite, workload, m, n, k, epilogue},
#define EPIFUSE_FP8(workload, m, n, k, epilogue) \
  {"fp8", workload, m, n, k, epilogue, "", DType::e4m3},
#define EPIFUSE_FP8_BLOCKS(workload, m, n, k, epilogue) \
  {"fp8", workload " blocks", m, n, k, epilogue, "blocks", DType::e4m3},
#define EPIFUSE_GATED(suite, workload, m, n, k, epilogue, layout) \
  {suite, workload " " layout, m, n, k, epilogue, layout},
#include "bench_grid.def"
#undef EPIFUSE_GATED
#undef EPIFUSE_FP8_BLOCKS
#undef EPIFUSE_FP8
#undef EPIFUSE_POINT
  };
  return points;
}

void check_suite(std::string_view suite) {
  std::vector<std::string_view> suites;
  for (const Point& point : all_points()) {
    if (std::ranges::find(suites, point.suite) == suites.end()) suites.push_back(point.suite);
  }
  suites.insert(suites.end(), {"random", "random_fp8", "host"});
  if (std::ranges::find(suites, suite) != suites.end()) return;
  throw ArgumentError(
      fmt::format("bench: expected a suite among {}, got '{}'", fmt::join(suites, ", "), suite));
}

std::vector<Point> filtered(const std::vector<Point>& points,
                            const std::vector<std::string>& filters) {
  std::vector<std::string> wanted = filters;
  if (wanted.empty()) wanted.emplace_back();  // which every text has
  std::vector<bool> matches(wanted.size());
  std::vector<Point> out;
  for (const Point& point : points) {
    bool is_wanted = false;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (text(point).find(wanted[i]) == std::string::npos) continue;
      matches[i] = is_wanted = true;
    }
    if (is_wanted) out.push_back(point);
  }
  const auto none = std::find(matches.begin(), matches.end(), false);
  if (none != matches.end()) {
    throw ArgumentError(
        fmt::format("bench: no point of the suite matches '{}'; --list names them all",
                    wanted[static_cast<std::size_t>(none - matches.begin())]));
  }
  return out;
}

std::vector<Point> find_points(const std::string& suite, const std::vector<std::string>& filters) {
  std::vector<Point> points = all_points();
  std::erase_if(points, [&](const Point& point) { return point.suite != suite; });
  return filtered(points, filters);
}

std::string text(const Point& point) {
  const std::string batch = point.batch > 1 ? fmt::format("{}x", point.batch) : "";
  return fmt::format("{} {}{}x{}x{} {}", point.workload, batch, point.m, point.n, point.k,
                     point.epilogue);
}

std::vector<std::string> epilogue_words(const Point& point) {
  std::vector<std::string> words;
  const std::string all = point.epilogue;
  for (std::size_t at = 0; at <= all.size();) {
    const std::size_t end = std::min(all.find('+', at), all.size());
    words.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

bool has_layout(const Point& point, std::string_view word) {
  const std::string words = " " + point.layout + " ";
  return words.find(fmt::format(" {} ", word)) != std::string::npos;
}

bool is_gated(const Point& point) {
  return has_layout(point, "halves") || has_layout(point, "interleaved") ||
         has_layout(point, "separate");
}

std::int64_t product_columns(const Point& point) { return point.n * (is_gated(point) ? 2 : 1); }

// What ops behind the product compute with.
DType epilogue_dtype(const Point& point) { return is_fp8(point.dtype) ? DType::bf16 : point.dtype; }

namespace {

// Scales of 1 x 128 of x, along M as PyTorch wants them, and of 128 x 128 of w.
Value scaled_by_blocks(const Point& point, Graph& graph, const Value& x) {
  const std::int64_t blocks = ceil_div(point.k, ir::kScaleBlock);
  const Value w = graph.input("w", point.dtype, {point.n, point.k});
  const Value sx = graph.input("sx", DType::f32, {blocks, Dim("M")});
  const Value sw = graph.input("sw", DType::f32, {ceil_div(point.n, ir::kScaleBlock), blocks});
  return scaled_matmul(x, transpose(w), transpose(sx), sw, epilogue_dtype(point));
}

}  // namespace

Graph graph_of(const Point& point) {
  const Dim m("M");
  Graph graph("bench");
  const auto tensor = [&](const char* name, DType dtype, const Dim& rows, const Dim& columns) {
    std::vector<Dim> shape{rows, columns};
    if (point.batch > 1) shape.insert(shape.begin(), Dim(point.batch));
    return graph.input(name, dtype, shape);
  };
  const auto matrix = [&](const char* name, const Dim& rows, const Dim& columns) {
    return tensor(name, point.dtype, rows, columns);
  };
  const bool is_xm = has_layout(point, "xm"), is_nn = has_layout(point, "nn");
  const Value x = is_xm ? transpose(matrix("x", point.k, m)) : matrix("x", m, point.k);
  const DType dtype = epilogue_dtype(point);
  const auto row = [&](const char* name) { return graph.input(name, dtype, {point.n}); };
  const std::vector<std::string> words = epilogue_words(point);
  const bool has_preact = std::find(words.begin(), words.end(), "preact") != words.end();
  const auto product = [&] {
    return is_nn ? matmul(x, matrix("w", point.k, point.n))
                 : matmul(x, transpose(matrix("w", point.n, point.k)));
  };
  const bool has_blocks = has_layout(point, "blocks");
  Value y = is_gated(point) ? gated_product(point, graph, x)
            : has_blocks    ? scaled_by_blocks(point, graph, x)
                            : product();
  if (is_fp8(point.dtype) && !has_blocks) {
    const Value scaled = y * tensor("sx", DType::f32, m, 1) * tensor("sw", DType::f32, 1, point.n);
    y = cast(scaled, dtype);
  }
  std::optional<Value> activated;
  for (const std::string& word : words) {
    if (is_gate(word) || (is_gated(point) && word == "bias")) continue;
    if (word == "alpha") y = y * kAlpha;
    if (word == "bias") y = y + row("b");
    if (word == "scale") y = y * row("s");
    if (word == "residual") y = y + tensor("r", dtype, m, point.n);
    if (word == "e4m3") y = cast(y, DType::e4m3);
    if (!is_activation(word)) continue;
    if (!activated) activated = y;
    y = apply(word, {y});
  }
  graph.output("y", y);
  if (has_preact && activated) graph.output("z", *activated);
  return graph;
}

nlohmann::json to_json(const Point& point) {
  return {{"suite", point.suite},
          {"workload", point.workload},
          {"m", point.m},
          {"n", point.n},
          {"k", point.k},
          {"groups", point.batch},
          {"dtype", name(point.dtype)},
          {"epilogue", point.epilogue},
          {"layout", point.layout}};
}

ResultRow row_of(const Point& point, std::string contender, std::string numerics) {
  ResultRow row{point.suite, point.workload, point.m, point.n, point.k, point.batch};
  row.dtype = name(point.dtype);
  row.epilogue = point.epilogue;
  row.numerics = std::move(numerics);
  row.contender = std::move(contender);
  row.baseline = "cublas";
  return row;
}

}  // namespace epifuse::cli
