// Builds a graph in C++, compiles it for the CPU, runs it and checks one row by hand.
#include <epifuse/epifuse.h>

#include <cmath>
#include <cstdio>
#include <vector>

namespace {

std::vector<float> wave(std::size_t count, double step) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>(std::sin(step * double(i)));
  return x;
}

double gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

}  // namespace

int main() {
  using namespace epifuse;
  constexpr std::int64_t kM = 17, kN = 200, kK = 136;
  const Dim m("M");

  Graph graph("ffn_down");
  const Value x = graph.input("x", DType::f32, {m, kK});
  const Value w = graph.input("w", DType::f32, {kN, kK});
  const Value b = graph.input("b", DType::f32, {kN});
  const Value r = graph.input("r", DType::f32, {m, kN});
  graph.output("y", gelu_erf(matmul(x, transpose(w)) + b) + r);
  const Program program = compile(graph, Target::cpu());
  std::printf("%s", program.explain({{"M", kM}}).c_str());

  std::vector<float> xs = wave(kM * kK, 0.3), ws = wave(kN * kK, 0.7), bs = wave(kN, 0.2);
  std::vector<float> rs = wave(kM * kN, 0.1), ys(kM * kN, NAN);
  program.run({{"x", TensorView{xs.data(), DType::f32, {kM, kK}}},
               {"w", TensorView{ws.data(), DType::f32, {kN, kK}}},
               {"b", TensorView{bs.data(), DType::f32, {kN}}},
               {"r", TensorView{rs.data(), DType::f32, {kM, kN}}},
               {"y", TensorView{ys.data(), DType::f32, {kM, kN}}}});

  double worst = 0;
  for (std::int64_t n = 0; n < kN; ++n) {
    const std::int64_t row = kM - 1;
    double sum = bs[std::size_t(n)];
    for (std::int64_t k = 0; k < kK; ++k) {
      sum += double(xs[std::size_t(row * kK + k)]) * double(ws[std::size_t(n * kK + k)]);
    }
    const auto i = std::size_t(row * kN + n);
    worst = std::fmax(worst, std::fabs(gelu(sum) + rs[i] - ys[i]));
  }
  std::printf("largest error in the last row: %g\n", worst);
  return worst < 1e-4 ? 0 : 1;
}
