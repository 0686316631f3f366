#include "bench_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "epifuse/error.h"

namespace epifuse::cli {
namespace {

constexpr Point kPoints[] = {
#define EPIFUSE_POINT(suite, workload, m, n, k, epilogue) {suite, workload, m, n, k, epilogue},
#include "bench_grid.def"
#undef EPIFUSE_POINT
};

constexpr double kAlpha = 0.125;

constexpr std::array<std::string_view, 6> kLinearWords{"identity", "alpha",    "bias",
                                                       "scale",    "residual", "preact"};

bool is_activation(const std::string& word) {
  return std::find(kLinearWords.begin(), kLinearWords.end(), word) == kLinearWords.end();
}

// Adds the words of `point` to an epilogue of the library, in its order; false at a word that does
// not come in it.
bool add_word(const std::string& word, const PointTensors& tensors, cuda::VendorEpilogue& out) {
  using Activation = cuda::VendorEpilogue::Activation;
  const bool activated = out.activation != Activation::none;
  if (word == "preact") {
    out.preact = tensors.view("z").data;
    return out.activation == Activation::gelu_tanh;
  }
  if (activated) return false;
  if (word == "alpha") {
    out.alpha = static_cast<float>(kAlpha);
    return out.bias == nullptr && out.residual == nullptr;
  }
  if (word == "bias") out.bias = tensors.view("b").data;
  if (word == "residual") out.residual = tensors.view("r").data;
  if (word == "relu") out.activation = Activation::relu;
  if (word == "gelu_tanh") out.activation = Activation::gelu_tanh;
  return word == "bias" || word == "residual" || word == "relu" || word == "gelu_tanh";
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

PointTensors::PointTensors(const Point& point, const Graph& graph)
    : point_(point),
      host_(graph.ir(), {{"M", point.m}}, {}),
      target_(host_, Target::cuda()),
      device_(cuda::Device::require()),
      bare_result_(device_, static_cast<std::size_t>(point.m * point.n) * 2) {
  TensorView d = view("y");
  d.data = bare_result_.data();
  bare_ = cuda::bare_gemm(device_, view("x"), weights(), d);
}

TensorView PointTensors::view(std::string_view name) const {
  for (const Binding& binding : target_.bindings()) {
    if (binding.name == name) return binding.view;
  }
  throw InternalError("the benchmark's graph has no such tensor");
}

TensorView PointTensors::weights() const {
  TensorView w = view("w");
  w.shape = {point_.k, point_.n};
  w.strides = {1, point_.k};
  return w;
}

std::function<void(Stream)> PointTensors::vendor_epilogue() const {
  cuda::VendorEpilogue epilogue;
  for (const std::string& word : epilogue_words(point_)) {
    if (!add_word(word, *this, epilogue)) return nullptr;
  }
  try {
    return cuda::epilogue_gemm(device_, view("x"), weights(), view("y"), epilogue);
  } catch (const DeviceError&) {
    return nullptr;  // the library has no kernel for this combination
  }
}

}  // namespace epifuse::cli
