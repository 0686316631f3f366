// Draws speed-ups as SVG.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "report.h"

namespace epifuse::cli {
namespace {

constexpr int kLeft = 424, kWidth = 940, kRight = 24, kTop = 84, kRow = 17, kBottom = 34;

// A contender's mark: its CSS class, and its shape around the origin.
struct Mark {
  const char *contender, *css, *shape;
};

constexpr std::array<Mark, 4> kMarks{{
    {"eager", "eager", R"(<path d="M0-5 5 0 0 5-5 0z"/>)"},
    {"inductor-max-autotune", "inductor", R"(<path d="M0-5 5 4-5 4z"/>)"},
    {"cublaslt-epilogue", "cublaslt", R"(<path d="M-4-4h8v8h-8z"/>)"},
    {"epifuse", "epifuse", R"(<circle r="5"/>)"},
}};

constexpr const char* kStyle = R"(<style>
  svg { font: 12px sans-serif; background: #fff; fill: #1f2328; }
  .title { font-size: 15px; font-weight: bold; }
  .mono { font: 11px monospace; }
  .tick { stroke: #d1d9e0; }
  .one { stroke: #59636e; stroke-width: 2; }
  .bar { stroke: #0969da; stroke-width: 3; }
  .epifuse { fill: #0969da; } .cublaslt { fill: #bc4c00; }
  .inductor { fill: #8250df; } .eager { fill: #818b98; }
  @media (prefers-color-scheme: dark) {
    svg { background: #0d1117; fill: #e6edf3; }
    .tick { stroke: #30363d; }
    .one { stroke: #9198a1; }
    .bar { stroke: #4493f8; }
    .epifuse { fill: #4493f8; } .cublaslt { fill: #f0883e; }
    .inductor { fill: #ab7df8; } .eager { fill: #6e7681; }
  }
</style>
)";

bool has(const ReportTable& table, const char* contender) {
  return std::find(table.contenders.begin(), table.contenders.end(), contender) !=
         table.contenders.end();
}

double speed_up(const ReportPoint& point, const char* contender) {
  const double ratio = point.of(contender).interleaved;
  return ratio > 0 ? 1 / ratio : 0;
}

// The geometric means, as one more point.
ReportPoint mean_point(const ReportTable& table) {
  ReportPoint out;
  for (const Mark& mark : kMarks) {
    const Comparison all = compare(table, &Ratios::interleaved, mark.contender);
    if (all.num_points > 0) out.contenders[mark.contender] = {all.mean, 0};
  }
  return out;
}

// Speed-ups as places on the page.
struct Axis {
  double low = 1, high = 1;

  explicit Axis(const ReportTable& table) {
    for (const ReportPoint& point : table.points) {
      for (const Mark& mark : kMarks) {
        const double x = speed_up(point, mark.contender);
        if (x <= 0) continue;
        low = std::min(low, x);
        high = std::max(high, x);
      }
    }
    low = std::floor(low * 10 - 0.2) / 10;
    high = std::ceil(high * 10 + 0.2) / 10;
  }
  double x(double speed) const {
    return kLeft + (speed - low) / (high - low) * (kWidth - kLeft - kRight);
  }
};

std::string line_of(const ReportPoint& point, const std::string& label, int y, const Axis& axis) {
  std::string out =
      fmt::format("<text class=\"mono\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
                  kLeft - 12, y + 4, label);
  const double ours = speed_up(point, "epifuse");
  if (ours > 0) {
    out +=
        fmt::format("<path class=\"bar\" d=\"M{:.1f} {}H{:.1f}\"/>\n", axis.x(1), y, axis.x(ours));
  }
  for (const Mark& mark : kMarks) {
    const double speed = speed_up(point, mark.contender);
    if (speed <= 0) continue;
    out += fmt::format(
        "<g class=\"{}\" transform=\"translate({:.1f} {})\">{}<title>{} {:.3f}x</title></g>\n",
        mark.css, axis.x(speed), y, mark.shape, mark.contender, speed);
  }
  return out;
}

std::string legend(const ReportTable& table) {
  std::string out;
  int x = kLeft;
  for (auto mark = kMarks.rbegin(); mark != kMarks.rend(); ++mark) {
    if (!has(table, mark->contender)) continue;
    out += fmt::format(
        "<g class=\"{}\" transform=\"translate({} 46)\">{}</g><text x=\"{}\" y=\"50\">{}</text>\n",
        mark->css, x, mark->shape, x + 10, mark->contender);
    x += 30 + 7 * static_cast<int>(std::string_view(mark->contender).size());
  }
  return out;
}

std::string grid_lines(const Axis& axis, int bottom) {
  std::string out;
  const int step = axis.high - axis.low > 1.6 ? 2 : 1;  // tenths
  const int last = static_cast<int>(std::lround(axis.high * 10));
  for (int tenth = static_cast<int>(std::lround(axis.low * 10)); tenth <= last; ++tenth) {
    if (tenth % step != 0) continue;
    const double x = axis.x(tenth / 10.0);
    out += fmt::format(
        "<path class=\"{}\" d=\"M{:.1f} {}V{}\"/><text x=\"{:.1f}\" y=\"{}\" "
        "text-anchor=\"middle\">{:.1f}x</text>\n",
        tenth == 10 ? "one" : "tick", x, kTop - 16, bottom, x, bottom + 18, tenth / 10.0);
  }
  return out;
}

}  // namespace

std::string report_plot(const ReportTable& table, const std::string& title) {
  if (table.points.empty()) return "";
  const Axis axis(table);
  const int bottom = kTop + kRow * (static_cast<int>(table.points.size()) + 1);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\">\n{2}<text class=\"title\" x=\"16\" y=\"24\">{3}</text>\n",
      kWidth, bottom + kBottom, kStyle, title);
  out += legend(table) + grid_lines(axis, bottom);
  int y = kTop;
  out += line_of(mean_point(table), "geometric mean", y, axis);
  for (const ReportPoint& point : table.points) {
    y += kRow;
    out += line_of(
        point,
        fmt::format("{} {}x{}x{} {}", point.workload, point.m, point.n, point.k, point.epilogue), y,
        axis);
  }
  return out + "</svg>\n";
}

}  // namespace epifuse::cli
