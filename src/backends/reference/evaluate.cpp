// The float64 values of a graph's outputs.
#include "backends/reference/evaluate.h"

#include "backends/bind.h"
#include "backends/reference/evaluator.h"

namespace epifuse::reference {

std::vector<std::vector<double>> evaluate(const ir::Graph& graph, std::span<const Binding> inputs) {
  const backends::Matched matched = backends::match(graph, inputs, DeviceKind::cpu, false);
  const codegen::Bound bound = backends::bind_sources(graph, matched);
  Evaluator evaluator(graph, bound, Options{});
  std::vector<ir::ValueId> results;
  for (const ir::Output& output : graph.outputs) {
    results.push_back(output.value);
    evaluator.require_all(output.value);
  }
  evaluator.run(results);
  std::vector<std::vector<double>> values;
  for (ir::ValueId id : results) {
    const Table& table = evaluator[id];
    std::vector<double>& elements = values.emplace_back();
    for (std::int64_t r = 0; r < table.num_rows(); ++r) {
      const Row row = table.row(r);
      for (std::int64_t col = 0; col < table.num_cols(); ++col) elements.push_back(row[col].value);
    }
  }
  return values;
}

}  // namespace epifuse::reference
