#include "random_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace epifuse::cli {
namespace {

constexpr double kMostFlops = 4e12, kMostElements = 3e8;
constexpr std::int64_t kMost = 16384, kLeast = 64, kMostBatch = 16;

constexpr const char* kEpilogues[] = {"bias",
                                      "bias+gelu_erf",
                                      "bias+gelu_tanh",
                                      "bias+silu",
                                      "silu",
                                      "bias+relu",
                                      "residual",
                                      "bias+residual",
                                      "alpha+residual",
                                      "bias+gelu_erf+residual",
                                      "bias+scale+residual",
                                      "bias+softplus",
                                      "bias+gelu_tanh+preact",
                                      "silu+preact"};

constexpr const char* kFp8Epilogues[] = {"identity",      "bias",           "bias+silu",
                                         "bias+gelu_erf", "bias+gelu_tanh", "silu+e4m3",
                                         "residual",      "bias+residual"};
constexpr std::int64_t kFewestFp8Rows = 16, kLeastFp8 = 512;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}

  // Of the standard's distributions no two libraries draw alike.
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  bool chance(double probability) { return uniform() < probability; }
  std::int64_t log_uniform(std::int64_t least, std::int64_t most) {
    const double span = std::log(static_cast<double>(most) / static_cast<double>(least));
    const double value = static_cast<double>(least) * std::exp(span * uniform());
    return std::clamp(static_cast<std::int64_t>(value), least, most);
  }
  // A number of columns or of steps along K.
  std::int64_t width() {
    const double kind = uniform();
    const std::int64_t value = log_uniform(kLeast, kMost);
    const std::int64_t unit = kind < 0.5 ? 64 : kind < 0.8 ? 8 : 1;
    return std::max(unit, value / unit * unit);
  }
  template <class T, std::size_t N>
  const T& one_of(const T (&all)[N]) {
    return all[static_cast<std::size_t>(uniform() * N)];
  }

 private:
  std::mt19937_64 engine_;
};

Point random_point(Draw& draw) {
  Point point;
  point.suite = "random";
  point.m = draw.log_uniform(1, kMost);
  point.n = draw.width();
  point.k = draw.width();
  point.epilogue = draw.one_of(kEpilogues);
  if (draw.chance(0.15)) point.layout = "xm";
  if (draw.chance(0.3)) point.layout += point.layout.empty() ? "nn" : " nn";
  if (draw.chance(0.2)) point.dtype = DType::f16;
  if (draw.chance(0.15)) point.batch = draw.log_uniform(2, kMostBatch);
  return point;
}

Point random_fp8_point(Draw& draw) {
  const auto width = [&] {
    const std::int64_t value = draw.log_uniform(kLeastFp8, kMost),
                       unit = draw.chance(0.67) ? 128 : 16;
    return value / unit * unit;
  };
  Point point;
  point.suite = "random_fp8";
  point.m = draw.log_uniform(kFewestFp8Rows, kMost);
  point.n = width();
  point.k = width();
  point.epilogue = draw.one_of(kFp8Epilogues);
  point.dtype = DType::e4m3;
  return point;
}

bool is_small_enough(const Point& point) {
  const auto m = static_cast<double>(point.m), n = static_cast<double>(point.n),
             k = static_cast<double>(point.k), batch = static_cast<double>(point.batch);
  return 2 * batch * m * n * k <= kMostFlops &&
         batch * (m * k + n * k + 3 * m * n) <= kMostElements;
}

std::vector<Point> drawn(std::uint64_t seed, int count, Point (*draw_one)(Draw&)) {
  Draw draw(seed);
  std::vector<Point> out;
  while (out.size() < static_cast<std::size_t>(count)) {
    Point point = draw_one(draw);
    if (!is_small_enough(point)) continue;
    point.workload = fmt::format("{}.{}", seed, out.size());
    if (!point.layout.empty()) point.workload += " " + point.layout;
    out.push_back(std::move(point));
  }
  return out;
}

}  // namespace

std::vector<Point> random_points(std::uint64_t seed, int count) {
  return drawn(seed, count, random_point);
}
std::vector<Point> random_fp8_points(std::uint64_t seed, int count) {
  return drawn(seed, count, random_fp8_point);
}

}  // namespace epifuse::cli
