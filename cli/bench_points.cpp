#include "bench_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "epifuse/error.h"

namespace epifuse::cli {
namespace {

constexpr Point kPoints[] = {
#define EPIFUSE_POINT(suite, workload, m, n, k, epilogue) {suite, workload, m, n, k, epilogue},
#include "bench_grid.def"
#undef EPIFUSE_POINT
};

constexpr std::array<std::string_view, 6> kLinearWords{"identity", "alpha",    "bias",
                                                       "scale",    "residual", "preact"};

bool is_activation(const std::string& word) {
  return std::find(kLinearWords.begin(), kLinearWords.end(), word) == kLinearWords.end();
}

}  // namespace

std::span<const Point> all_points() { return kPoints; }

std::vector<Point> find_points(const std::string& suite, const std::string& filter) {
  std::vector<Point> out;
  for (const Point& point : kPoints) {
    if (point.suite == suite && text(point).find(filter) != std::string::npos) {
      out.push_back(point);
    }
  }
  if (out.empty()) {
    throw ArgumentError(fmt::format(
        "bench: no point of suite '{}' matches '{}'; suites: dense, square, small, host", suite,
        filter));
  }
  return out;
}

std::string text(const Point& point) {
  return fmt::format("{} {}x{}x{} {}", point.workload, point.m, point.n, point.k, point.epilogue);
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

Graph graph_of(const Point& point) {
  const Dim m("M");
  Graph graph("bench");
  const Value x = graph.input("x", DType::bf16, {m, point.k});
  const Value w = graph.input("w", DType::bf16, {point.n, point.k});
  const auto row = [&](const char* name) { return graph.input(name, DType::bf16, {point.n}); };
  Value y = matmul(x, transpose(w));
  std::optional<Value> activated;
  bool has_preact = false;
  for (const std::string& word : epilogue_words(point)) {
    if (word == "preact") has_preact = true;
    if (word == "alpha") y = y * kAlpha;
    if (word == "bias") y = y + row("b");
    if (word == "scale") y = y * row("s");
    if (word == "residual") y = y + graph.input("r", DType::bf16, {m, point.n});
    if (!is_activation(word)) continue;
    if (!activated) activated = y;
    y = apply(word, {y});
  }
  graph.output("y", y);
  if (has_preact) graph.output("z", activated.value());
  return graph;
}

ResultRow row_of(const Point& point, std::string contender, std::string numerics) {
  ResultRow row{point.suite, point.workload, point.m, point.n, point.k};
  row.dtype = "bf16";
  row.epilogue = point.epilogue;
  row.numerics = std::move(numerics);
  row.contender = std::move(contender);
  row.baseline = "cublas";
  return row;
}

}  // namespace epifuse::cli
