#include "sweep_judge.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/measure.h"

namespace epifuse::cli {
namespace {

constexpr double kLargeLoss = 0.08;

double ratio(double us, double cublas_us) { return cublas_us > 0 ? us / cublas_us : 0; }

std::string ratio_text(double x) { return x > 0 ? fmt::format("{:.3f}", x) : "-"; }

// The right candidate with the least of one time; null when none was measured.
const CandidateTimes* best(const PointTimes& point, double RunTimes::*time) {
  const CandidateTimes* found = nullptr;
  for (const CandidateTimes& candidate : point.candidates) {
    const double us = candidate.times.*time;
    if (us <= 0 || !candidate.wrong.empty()) continue;
    if (found == nullptr || us < found->times.*time) found = &candidate;
  }
  return found;
}

double loss(const CandidateTimes& chosen, const CandidateTimes* best, double RunTimes::*time) {
  return best != nullptr && chosen.times.*time > 0 ? chosen.times.*time / (best->times.*time) - 1
                                                   : 0;
}

void set_times(ResultRow& row, const RunTimes& times, const RunTimes& cublas) {
  row.us = times.us;
  row.ratio = ratio(times.us, cublas.us);
  row.ratio_sustained = ratio(times.sustained_us, cublas.sustained_us);
}

std::string line(std::string_view mark, const std::string& name, const std::string& expected,
                 const RunTimes& times, const RunTimes& cublas) {
  return fmt::format("  {:1} {:<48} expected {:>8}  measured {:>8.1f} us  ratio {}  sustained {}\n",
                     mark, name, expected, times.us, ratio_text(ratio(times.us, cublas.us)),
                     ratio_text(ratio(times.sustained_us, cublas.sustained_us)));
}

std::string means(const std::vector<Outcome>& outcomes, double Outcome::*value, double offset) {
  std::vector<double> all;
  for (const Outcome& outcome : outcomes) {
    if (outcome.*value + offset > 0) all.push_back(outcome.*value + offset);
  }
  if (all.empty()) return "not measured";
  const double worst = *std::max_element(all.begin(), all.end()), mean = geometric_mean(all);
  return offset > 0 ? fmt::format("{:.1f} %, worst {:.1f} %", 100 * (mean - offset),
                                  100 * (worst - offset))
                    : fmt::format("{:.3f}, worst {:.3f}", mean, worst);
}

}  // namespace

std::vector<ResultRow> rows_of(const PointTimes& point) {
  std::vector<ResultRow> rows;
  for (const CandidateTimes& candidate : point.candidates) {
    if (!candidate.wrong.empty()) continue;
    ResultRow& row = rows.emplace_back(row_of(point.point, "candidate", "fast"));
    row.config = candidate.config;
    row.expected_us = candidate.expected_us;
    row.chosen = candidate.chosen;
    row.rel_error = point.rel_error;
    set_times(row, candidate.times, point.cublas);
  }
  rows.push_back(row_of(point.point, "cublas+tail", "fast"));
  set_times(rows.back(), point.split, point.cublas);
  rows.push_back(row_of(point.point, "cublas", "fast"));
  set_times(rows.back(), point.cublas, point.cublas);
  return rows;
}

Outcome judge(const PointTimes& point) {
  const auto chosen = std::find_if(point.candidates.begin(), point.candidates.end(),
                                   [](const CandidateTimes& each) { return each.chosen; });
  EPIFUSE_CHECK(chosen != point.candidates.end(), "a model chooses one of its candidates");
  const CandidateTimes* fastest = best(point, &RunTimes::us);
  const CandidateTimes* sustained = best(point, &RunTimes::sustained_us);
  Outcome out;
  out.point = text(point.point);
  out.chosen = chosen->config;
  if (fastest != nullptr) out.best = fastest->config;
  if (sustained != nullptr) out.best_sustained = sustained->config;
  out.loss = loss(*chosen, fastest, &RunTimes::us);
  out.loss_sustained = loss(*chosen, sustained, &RunTimes::sustained_us);
  out.ratio = ratio(chosen->times.us, point.cublas.us);
  out.ratio_sustained = ratio(chosen->times.sustained_us, point.cublas.sustained_us);
  return out;
}

std::string describe(const PointTimes& point, const Outcome& outcome) {
  std::string out = fmt::format("{}\n", text(point.point));
  std::vector<const CandidateTimes*> order;
  for (const CandidateTimes& candidate : point.candidates) order.push_back(&candidate);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->times.us < b->times.us; });
  for (const CandidateTimes* each : order) {
    if (!each->wrong.empty()) {
      out += fmt::format("  ! {}: wrong, {}\n", each->config, each->wrong);
      continue;
    }
    out += line(each->chosen ? "*" : "", each->config, fmt::format("{:.1f}", each->expected_us),
                each->times, point.cublas);
  }
  out += line("", "cublas + tail", "", point.split, point.cublas);
  out += line("", "cublas, bare", "", point.cublas, point.cublas);
  out += fmt::format("  chooses {}: {:.1f} % behind {}", outcome.chosen, 100 * outcome.loss,
                     outcome.best);
  if (!outcome.best_sustained.empty()) {
    out += fmt::format("; sustained {:.1f} % behind {}", 100 * outcome.loss_sustained,
                       outcome.best_sustained);
  }
  return out + "\n";
}

std::string describe(const std::vector<Outcome>& outcomes) {
  std::string out = fmt::format(
      "over {} points\n"
      "  choice behind the best   launch by launch {}; sustained {}\n"
      "  choice / bare cuBLAS     launch by launch {}; sustained {}\n",
      outcomes.size(), means(outcomes, &Outcome::loss, 1),
      means(outcomes, &Outcome::loss_sustained, 1), means(outcomes, &Outcome::ratio, 0),
      means(outcomes, &Outcome::ratio_sustained, 0));
  for (const Outcome& each : outcomes) {
    if (std::max(each.loss, each.loss_sustained) <= kLargeLoss) continue;
    out += fmt::format("  over {:.0f} %: {}: {:.1f} %, sustained {:.1f} %; {}, not {}\n",
                       100 * kLargeLoss, each.point, 100 * each.loss, 100 * each.loss_sustained,
                       each.chosen, each.best);
  }
  return out;
}

}  // namespace epifuse::cli
