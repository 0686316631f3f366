// Which work on an epilogue's operands pays to be done in its kernel.
#include "partition/fusion_producers.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "ir/views.h"

namespace epifuse {

using ir::Op;
using ir::ValueId;

namespace {

// What an instruction an element takes of the time of a byte an element: a GPU that moves 4 TB/s
// runs some 30 T instructions/s, and the kernel's products hide about half of them.
constexpr double kBytesOfInstruction = 0.0625;

}  // namespace

Producers::Producers(const FrameworkPlan& framework, const plan::FusedGemm& step)
    : framework_(framework), graph_(framework.plan().graph), tile_(space(graph_, step.gemm)) {
  const std::vector<ValueId> computed = plan::computed_values(framework.plan(), step);
  all_ = {computed.begin(), computed.end()};
  const Values results = framework.results(all_);
  std::ranges::set_difference(all_, results, std::inserter(producers_, producers_.end()));
}

Producers::Values Producers::cheapest() const {
  Values best = without_cut_ops();
  double least = cost(best);
  for (bool improved = true; improved;) {
    improved = false;
    for (const ValueId id : producers_) {
      if (!best.contains(id) || !can_drop(id)) continue;
      Values fewer = without(best, id);
      const double bytes = cost(fewer);
      if (bytes >= least) continue;
      least = bytes;
      best = std::move(fewer);
      improved = true;
    }
  }
  return best;
}

// Of an op of the framework the kernel has all parts or none.
Producers::Values Producers::without_cut_ops() const {
  Values rest = all_;
  for (const ValueId id : producers_) {
    const auto is_outside = [&](ValueId part) { return !all_.contains(part); };
    if (std::ranges::any_of(framework_.unit(id), is_outside)) rest = without(rest, id);
  }
  return rest;
}

Producers::Values Producers::without(const Values& values, ValueId id) const {
  Values fewer = values;
  for (const ValueId part : framework_.unit(id)) fewer.erase(part);
  return pruned(fewer);
}

// The parts of an op are all the framework's then, so that none may need the product.
bool Producers::can_drop(ValueId id) const {
  return std::ranges::all_of(framework_.unit(id), [&](ValueId part) { return contains(part); });
}

// Readers come behind what they read.
Producers::Values Producers::pruned(const Values& values) const {
  Values kept, read;
  for (auto at = values.rbegin(); at != values.rend(); ++at) {
    if (contains(*at) && !read.contains(*at)) continue;
    kept.insert(*at);
    for (const ValueId arg : graph_[*at].args) read.insert(ir::storage(graph_, arg));
  }
  return kept;
}

Producers::Values Producers::without_lone_sums(const Values& values) const {
  const Values results = framework_.results(values);
  Values others = values;
  std::erase_if(others, [&](ValueId id) { return framework_.is_sum_beside(id, results); });
  Values read = loads(others), kept = others;
  for (const ValueId id : others) {
    if (ir::is_matmul(graph_[id].op)) read.insert(graph_[id].args.begin(), graph_[id].args.end());
  }
  for (const ValueId id : values) {
    if (!others.contains(id) && read.contains(graph_[id].args[0])) kept.insert(id);
  }
  return pruned(kept);
}

// What the epilogue reads in memory, each once.
Producers::Values Producers::loads(const Values& values) const {
  Values found;
  for (const ValueId id : values) {
    if (ir::is_matmul(graph_[id].op)) continue;
    for (const ValueId arg : graph_[id].args) {
      const bool is_inside = values.contains(ir::storage(graph_, arg));
      if (!is_inside && graph_[arg].op != Op::constant) found.insert(arg);
    }
  }
  return found;
}

// Whether it is in memory for the kernel alone.
bool Producers::is_made(ValueId load) const {
  const ValueId origin = ir::storage(graph_, load);
  return framework_.is_unstored(origin) || (contains(origin) && !framework_.is_in_memory(origin));
}

bool Producers::reads_any(const Values& values) const {
  return std::ranges::any_of(loads(values),
                             [&](ValueId load) { return framework_.bytes(load, tile_) >= 1; });
}

double Producers::bytes_read(const Values& values) const {
  double sum = 0;
  for (const ValueId load : loads(values)) sum += framework_.bytes(load, tile_);
  return sum;
}

double Producers::bytes_made(const Values& values) const {
  double sum = 0;
  for (const ValueId load : loads(values)) {
    if (is_made(load)) sum += 2 * framework_.bytes(load, tile_);
  }
  return sum;
}

// Bytes an element: what the kernel reads, what the framework stores and reads to make that, and
// the kernel's work on it. What is no full tensor costs next to nothing.
double Producers::cost(const Values& values) const {
  double sum = bytes_made(values) / 2;
  Values read_by_framework;
  for (const ValueId load : loads(values)) {
    sum += framework_.bytes(load, tile_);
    if (is_made(load)) add_read_by_framework(load, read_by_framework);
  }
  for (const ValueId id : read_by_framework) sum += framework_.bytes(id, tile_);
  for (const ValueId id : values) {
    const bool is_work = contains(id) && graph_[id].type.shape == tile_;
    if (is_work) sum += kBytesOfInstruction * ir::info(graph_[id].op).cost;
  }
  return sum;
}

// What the framework makes `load` from and has in memory.
void Producers::add_read_by_framework(ValueId load, Values& found) const {
  std::vector<ValueId> open{ir::storage(graph_, load)};
  Values seen;
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (!contains(id) || !seen.insert(id).second) continue;
    for (const ValueId arg : graph_[id].args) {
      const ValueId origin = ir::storage(graph_, arg);
      open.push_back(origin);
      const bool is_stored = !contains(origin) && !framework_.is_unstored(origin);
      if (is_stored && graph_[origin].op != Op::constant) found.insert(arg);
    }
  }
}

}  // namespace epifuse
