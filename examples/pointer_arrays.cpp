// Three layers of their own sizes in one call, on the CPU: a grouped GEMM by arrays of pointers. On
// a GPU the arrays are in device memory, and the three are one launch.
#include <epifuse/epifuse.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

namespace {

struct Layer {
  std::int64_t m, n, k;
  std::vector<float> x, w, b, y;

  Layer(std::int64_t m_, std::int64_t n_, std::int64_t k_)
      : m(m_), n(n_), k(k_), x(wave(m * k, 0.3)), w(wave(n * k, 0.7)), b(wave(n, 0.2)) {
    y.assign(static_cast<std::size_t>(m * n), NAN);
  }
  static std::vector<float> wave(std::int64_t count, double step) {
    std::vector<float> out;
    for (std::int64_t i = 0; i < count; ++i) out.push_back(float(std::sin(step * double(i))));
    return out;
  }
  // Of the last row, whose results are checked by hand.
  double error() const {
    double worst = 0;
    for (std::int64_t col = 0; col < n; ++col) {
      double sum = b[std::size_t(col)];
      for (std::int64_t i = 0; i < k; ++i) {
        sum += double(x[std::size_t((m - 1) * k + i)]) * double(w[std::size_t(col * k + i)]);
      }
      const double exact = sum / (1 + std::exp(-sum));
      worst = std::fmax(worst, std::fabs(exact - y[std::size_t((m - 1) * n + col)]));
    }
    return worst;
  }
};

}  // namespace

int main() {
  using namespace epifuse;
  const Dim m("M"), n("N"), k("K");
  Graph graph("layer");
  const Value x = graph.input("x", DType::f32, {m, k}), w = graph.input("w", DType::f32, {n, k});
  const Value b = graph.input("b", DType::f32, {n});
  graph.output("y", silu(matmul(x, transpose(w)) + b));
  const Program program = compile(graph, Target::cpu());
  std::printf("%s\n", program.explain_pointer_arrays().c_str());

  std::array<Layer, 3> layers{Layer(17, 200, 136), Layer(1, 64, 512), Layer(300, 8, 40)};
  std::vector<std::int64_t> sizes;
  std::vector<const void*> xs, ws, bs, ys;
  for (Layer& layer : layers) {
    sizes.insert(sizes.end(), {layer.m, layer.n, layer.k});
    xs.push_back(layer.x.data());
    ws.push_back(layer.w.data());
    bs.push_back(layer.b.data());
    ys.push_back(layer.y.data());
  }
  PointerArrays problems;
  problems.count = std::int64_t(layers.size());
  problems.symbols = {"M", "N", "K"};
  problems.sizes = sizes.data();
  problems.tensors = {{"x", xs.data()}, {"w", ws.data()}, {"b", bs.data()}, {"y", ys.data()}};
  program.run_pointer_arrays(problems);

  double worst = 0;
  for (const Layer& layer : layers) worst = std::fmax(worst, layer.error());
  std::printf("largest error in the last rows: %g\n", worst);
  return worst < 1e-4 ? 0 : 1;
}
