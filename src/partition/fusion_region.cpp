// Which values of a planned step pay to be in its kernel, when a framework can compute the others.
#include "partition/fusion_region.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "partition/fusion_levels.h"
#include "partition/fusion_producers.h"
#include "plan/facts.h"

namespace epifuse {

using ir::Op;
using ir::ValueId;
using plan::index;

namespace {

// As Inductor asks before it sums both ways in one kernel (mix_order_reduction).
bool is_summed_both_ways(const ir::Shape& tile, const Sizes& likely) {
  std::int64_t rows = 1;
  for (const Dim& dim : tile) {
    const auto is_known = [&](const std::string& symbol) { return likely.contains(symbol); };
    if (!std::ranges::all_of(dim.symbols(), is_known)) return false;
  }
  for (std::size_t i = 0; i + 1 < tile.size(); ++i) rows *= tile[i].eval(likely);
  const std::int64_t columns = tile.empty() ? 1 : tile.back().eval(likely);
  return rows >= 4096 && rows >= 2 * columns && columns <= 16384 && rows * columns >= 5 << 20;
}

}  // namespace

FrameworkPlan::FrameworkPlan(const plan::Plan& plan, const FusionRequest& request,
                             const Values* fused)
    : plan_(plan),
      request_(request),
      is_result_(plan.graph.nodes.size()),
      in_memory_(plan.graph.nodes.size()),
      unstored_(plan.graph.nodes.size()),
      in_product_(plan.graph.nodes.size()) {
  const plan::Facts facts(plan.graph);
  dependents_ = facts.dependents;
  is_result_ = facts.is_output;
  std::unordered_map<std::string_view, ValueId> ids;
  for (std::size_t i = 0; i < plan.graph.nodes.size(); ++i) {
    const auto id = static_cast<ValueId>(i);
    ids.emplace(plan.graph[id].name, id);
    in_memory_[i] = request.in_memory.contains(plan.graph[id].name);
    unstored_[i] = request.unstored.contains(plan.graph[id].name);
  }
  for (const plan::Step& step : plan.steps) {
    if (!std::holds_alternative<plan::FusedGemm>(step)) continue;
    for (const ValueId id : plan::computed_values(plan, step)) {
      const bool is_product = ir::is_matmul(plan.graph[id].op);
      in_product_[index(id)] = is_product || fused == nullptr || fused->contains(id);
    }
  }
  for (const std::vector<std::string>& names : request.whole) {
    std::vector<ValueId> members;
    for (const std::string& name : names) {
      const auto found = ids.find(name);
      const bool is_view = found != ids.end() && ir::is_view(plan.graph[found->second].op);
      if (found != ids.end() && !is_view) members.push_back(found->second);
    }
    for (const ValueId id : members) unit_of_[id] = units_.size();
    if (!members.empty()) units_.push_back(std::move(members));
  }
}

std::vector<ValueId> FrameworkPlan::unit(ValueId value) const {
  const auto found = unit_of_.find(value);
  return found == unit_of_.end() ? std::vector<ValueId>{value} : units_[found->second];
}

// Without these values, what depends on them, and the other parts of their ops.
FrameworkPlan::Values FrameworkPlan::without(const Values& values,
                                             const std::vector<ValueId>& dropped) const {
  Values rest = values;
  std::vector<ValueId> open = dropped;
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (rest.erase(id) == 0) continue;
    for (const ValueId part : unit(id)) open.push_back(part);
    for (const ValueId dependent : dependents_[index(id)]) open.push_back(dependent);
  }
  return rest;
}

FrameworkPlan::Values FrameworkPlan::without_parts(Values values) const {
  std::vector<ValueId> parts;
  for (const ValueId id : values) {
    const std::vector<ValueId> all = unit(id);
    const auto outside = [&](ValueId other) { return !values.contains(other); };
    if (std::any_of(all.begin(), all.end(), outside)) parts.push_back(id);
  }
  return without(values, parts);
}

FrameworkPlan::Values FrameworkPlan::without_blocks(const Values& values) const {
  std::vector<ValueId> blocks;
  std::ranges::copy_if(values, std::back_inserter(blocks),
                       [&](ValueId id) { return ir::is_block(plan_.graph[id].op); });
  return without(values, blocks);
}

bool FrameworkPlan::is_read_outside(ValueId value, const Values& inside) const {
  const std::vector<ValueId>& readers = dependents_[index(value)];
  return is_result_[index(value)] ||
         std::any_of(readers.begin(), readers.end(),
                     [&](ValueId reader) { return !inside.contains(reader); });
}

bool FrameworkPlan::is_in_memory(ValueId value) const { return in_memory_[index(value)]; }

bool FrameworkPlan::is_unstored(ValueId value) const { return unstored_[index(value)]; }

FrameworkPlan::Values FrameworkPlan::results(const Values& values) const {
  Values found;
  for (const ValueId id : values) {  // what is read comes first
    const std::vector<ValueId>& args = plan_.graph[id].args;
    const auto is_result = [&](ValueId arg) {
      return found.contains(ir::storage(plan_.graph, arg));
    };
    const Op op = plan_.graph[id].op;
    const bool is_own = ir::is_matmul(op) || ir::is_reduction(op);
    if (is_own || std::ranges::any_of(args, is_result)) found.insert(id);
  }
  return found;
}

bool FrameworkPlan::is_sum_beside(ValueId value, const Values& results) const {
  const ir::Graph& graph = plan_.graph;
  return ir::is_reduction(graph[value].op) &&
         !results.contains(ir::storage(graph, graph[value].args[0]));
}

bool FrameworkPlan::has_only_sums_beside(const std::vector<ValueId>& values) const {
  const Values of_product = results({values.begin(), values.end()});
  return std::ranges::all_of(values, [&](ValueId id) {
    return ir::is_matmul(plan_.graph[id].op) || is_sum_beside(id, of_product);
  });
}

bool FrameworkPlan::only_puts(const std::vector<ValueId>& values) const {
  return values.size() == 2 && std::ranges::all_of(values, [&](ValueId id) {
           const Op op = plan_.graph[id].op;
           return ir::is_matmul(op) || (op == Op::put_rows && !is_in_memory(id));
         });
}

double FrameworkPlan::bytes(ValueId value, const ir::Shape& tile) const {
  constexpr double kReduction = 1e-3;  // next to nothing, but a kernel more
  const ir::Node& node = plan_.graph[value];
  const ir::TensorType& type = node.type;
  const auto element = static_cast<double>(size_bytes(type.dtype));
  if (type.shape == tile || node.op == ir::Op::put_rows) return element;
  const bool has_both = type.shape.size() == tile.size() && type.shape.back() == tile.back() * 2;
  return has_both ? 2 * element : kReduction;
}

// What the framework reads once more where it scales rows by their largest magnitude: rows that are
// longer than it keeps in registers.
double FrameworkPlan::second_read(ValueId value, const Values& inside,
                                  const ir::Shape& tile) const {
  constexpr std::int64_t kLongestInRegisters = 1024;  // of Inductor's reductions
  const ir::Graph& graph = plan_.graph;
  if (graph[value].op != ir::Op::row_max) return 0;
  ValueId source = graph[value].args[0];
  const auto length = graph[source].type.shape.back().constant();
  if (graph[source].op != ir::Op::abs || !length || *length <= kLongestInRegisters) return 0;
  while (!inside.contains(source) && ir::is_elementwise(graph[source].op)) {
    source = graph[source].args[0];
  }
  return inside.contains(source) ? bytes(source, tile) : 0;
}

// Bytes an element: what the kernel stores, what the framework reads of that to compute the other
// results, or of other tensors for sums that the kernel has not, and what it stores of those.
// Elementwise work of the framework is taken to be fused.
double FrameworkPlan::traffic(const Values& results, const Values& inside,
                              const ir::Shape& tile) const {
  double sum = 0;
  for (const ValueId id : results) {
    const std::vector<ValueId>& readers = dependents_[index(id)];
    const auto is_product = [&](ValueId reader) {
      return static_cast<bool>(in_product_[index(reader)]) && !results.contains(reader);
    };
    const auto is_framework = [&](ValueId reader) {
      return !inside.contains(reader) && !is_product(reader);
    };
    const bool result = is_result_[index(id)], memory = in_memory_[index(id)];
    const bool framework_reads =
        (result && !memory) || std::any_of(readers.begin(), readers.end(), is_framework);
    const bool needed = memory || std::any_of(readers.begin(), readers.end(), is_product);
    if (!inside.contains(id)) {
      sum += (needed ? bytes(id, tile) : 0) + second_read(id, inside, tile);
      if (is_sum_beside(id, results)) sum += bytes(plan_.graph[id].args[0], tile);
    } else if (is_read_outside(id, inside)) {
      sum += bytes(id, tile) * (framework_reads ? 2 : 1);
    }
  }
  return sum;
}

// The product, and what the framework's op has beside it.
FrameworkPlan::Values FrameworkPlan::fewest(const Values& values, ValueId product) const {
  Values least = values;
  for (const ValueId id : values) {
    Values fewer = without(least, {id});
    if (fewer.contains(product)) least = std::move(fewer);
  }
  return least;
}

// Whether the framework sums rows of what is computed of these results, and columns with them.
bool FrameworkPlan::sums_rows_of(const Values& results, const Values& inside,
                                 const ir::Shape& tile) const {
  if (!request_.sums_both_ways || !is_summed_both_ways(tile, request_.likely_sizes)) return false;
  std::vector<bool> depends(plan_.graph.nodes.size());
  for (std::size_t i = 0; i < depends.size(); ++i) {
    const auto id = static_cast<ValueId>(i);
    const std::vector<ValueId>& args = plan_.graph[id].args;
    depends[i] = results.contains(id) || std::ranges::any_of(args, [&](ValueId arg) {
                   return static_cast<bool>(depends[index(arg)]);
                 });
    const bool is_sum = plan_.graph[id].op == Op::row_sum && !inside.contains(id);
    if (is_sum && depends[i] && plan_.graph[args[0]].type.shape == tile) return true;
  }
  return false;
}

// Of results; nor with what only they read.
FrameworkPlan::Values FrameworkPlan::without_column_sums(const Values& values,
                                                         ValueId product) const {
  const Values of_product = results(values);
  const auto is_column_sum = [&](ValueId id) {
    return plan_.graph[id].op == Op::col_sum && !is_sum_beside(id, of_product);
  };
  std::vector<ValueId> dropped;
  std::ranges::copy_if(values, std::back_inserter(dropped), is_column_sum);
  Values fewer = without(values, dropped);
  for (auto at = fewer.rbegin(); at != fewer.rend();) {
    const std::vector<ValueId>& readers = dependents_[index(*at)];
    const auto is_inside = [&](ValueId reader) { return fewer.contains(reader); };
    const auto was_inside = [&](ValueId reader) { return values.contains(reader); };
    const bool is_for_sums = std::ranges::any_of(readers, was_inside) &&
                             std::ranges::none_of(readers, is_inside) && *at != product;
    at =
        is_for_sums ? std::make_reverse_iterator(fewer.erase(std::next(at).base())) : std::next(at);
  }
  return fewer;
}

// Drops results while that takes fewer bytes, by `moved`.
FrameworkPlan::Values FrameworkPlan::least(
    Values best, const Values& of_product, ValueId product,
    const std::function<double(const Values&)>& moved) const {
  for (bool improved = true; improved;) {
    improved = false;
    const Values now = best;
    double least = moved(now);
    for (const ValueId id : now) {
      if (!of_product.contains(id)) continue;
      Values fewer = without(now, {id});
      if (!fewer.contains(product)) continue;
      const double bytes = moved(fewer);
      const bool is_larger = bytes == least && improved && fewer.size() > best.size();
      if (bytes >= least && !is_larger) continue;
      least = bytes;
      best = std::move(fewer);
      improved = true;
    }
  }
  return best;
}

WorthComputing FrameworkPlan::worth_computing(const plan::FusedGemm& step, bool with_blocks) const {
  const std::vector<ValueId> computed = plan::computed_values(plan_, step);
  const Values all(computed.begin(), computed.end()), of_product = results(all);
  const ir::Shape tile = space(plan_.graph, step.gemm);
  const ValueId product = step.gemm.matmul;
  const Producers producers(*this, step);
  const auto moved = [&](const Values& values) {
    return traffic(of_product, values, tile) + producers.bytes_made(producers.pruned(values));
  };
  Values best = without_parts(producers.cheapest());
  if (!with_blocks) best = without_blocks(best);
  best = producers.pruned(least(std::move(best), of_product, product, moved));
  if (sums_rows_of(of_product, best, tile)) {
    Values fewer = without_column_sums(best, product);
    fewer = producers.pruned(least(std::move(fewer), of_product, product, moved));
    const auto all_moved = [&](const Values& values) {
      return moved(values) + producers.bytes_read(values);
    };
    if (all_moved(fewer) < all_moved(best)) best = std::move(fewer);
  }
  best = producers.without_lone_sums(best);
  bool saves_nothing = false;
  if (step.gemm.gating == plan::Gating::none && best.contains(product)) {
    Values least = producers.pruned(fewest(best, product));
    // What a kernel reads, the framework's work behind it need not read: only that counts at a tie.
    // Frameworks' own grouped products are slower than kernels at all sizes measured.
    const bool ties = best != least && moved(best) == moved(least);
    saves_nothing = ties && !producers.reads_any(best) && !step.gemm.is_grouped();
    if (saves_nothing || moved(best) > moved(least)) best = std::move(least);
  }
  if (!best.contains(product)) return {};
  return {{best.begin(), best.end()}, saves_nothing};
}

}  // namespace epifuse
