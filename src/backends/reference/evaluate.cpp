// The float64 values of a graph's outputs.
#include "backends/reference/evaluate.h"

#include "backends/bind.h"
#include "backends/reference/evaluator.h"

namespace epifuse::reference {

std::vector<std::vector<Interval>> bounds(const ir::Graph& graph, std::span<const Binding> tensors,
                                          const Options& options) {
  const backends::Matched matched =
      backends::match(graph, tensors, DeviceKind::cpu, backends::Outputs::optional);
  const codegen::Bound bound = backends::bind_sources(graph, matched);
  Evaluator evaluator(graph, bound, options);
  std::vector<ir::ValueId> results;
  for (const ir::Output& output : graph.outputs) {
    results.push_back(output.value);
    evaluator.require_all(output.value);
  }
  evaluator.run(results);
  std::vector<std::vector<Interval>> values;
  for (ir::ValueId id : results) {
    const Table& table = evaluator[id];
    std::vector<Interval>& elements = values.emplace_back();
    for (std::int64_t r = 0; r < table.num_rows(); ++r) {
      const Row row = table.row(r);
      for (std::int64_t col = 0; col < table.num_cols(); ++col) elements.push_back(row[col]);
    }
  }
  return values;
}

std::vector<std::vector<double>> evaluate(const ir::Graph& graph,
                                          std::span<const Binding> tensors) {
  std::vector<std::vector<double>> values;
  for (const std::vector<Interval>& intervals : bounds(graph, tensors, Options{})) {
    std::vector<double>& elements = values.emplace_back();
    for (const Interval& x : intervals) elements.push_back(x.value);
  }
  return values;
}

}  // namespace epifuse::reference
