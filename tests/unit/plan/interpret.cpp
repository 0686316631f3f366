// Two small interpreters over float64: of a graph, value by value, and of a plan, step by step.
#include "interpret.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/float_types.h"
#include "ir/views.h"

namespace epifuse::test {
namespace {

using Index = std::vector<std::int64_t>;
using ir::Node;
using ir::Op;
using ir::ValueId;

std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }

double rounded(double x, DType dtype) { return dtype == DType::f32 ? x : round_to(x, dtype); }

std::int64_t num_elements(const Index& shape) {
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  return count;
}

// Calls body(index) for each index of a shape, the last dim fastest.
template <class Body>
void for_each(const Index& shape, Body body) {
  Index index(shape.size(), 0);
  for (std::int64_t left = num_elements(shape); left > 0; --left) {
    body(index);
    for (std::size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
  }
}

std::size_t dense_offset(const Index& shape, const Index& index) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) offset = offset * shape[d] + index[d];
  return static_cast<std::size_t>(offset);
}

// The element of a smaller or equal shape that `index` of a larger one stands for.
Index broadcast_index(const Index& shape, const Index& index) {
  Index result(index.end() - static_cast<std::ptrdiff_t>(shape.size()), index.end());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) result[d] = 0;
  }
  return result;
}

double reduce(Op op, double sum, double x) {
  const bool is_max = op == Op::row_max || op == Op::col_max;
  if (!is_max) return sum + x;
  return sum > x || sum != sum ? sum : x;
}

double reduce_start(Op op) {
  const bool is_max = op == Op::row_max || op == Op::col_max;
  return is_max ? -std::numeric_limits<double>::infinity() : 0;
}

class GraphInterpreter {
 public:
  GraphInterpreter(const ir::Graph& graph, const Tensors& inputs, const Sizes& sizes)
      : graph_(graph), sizes_(sizes), values_(inputs) {}
  Tensors run();

 private:
  Index shape(ValueId id) const { return ir::eval(graph_[id].type.shape, sizes_); }
  double element(ValueId id, const Index& index) const {
    const Index own = shape(id);
    return values_[at(id)][dense_offset(own, broadcast_index(own, index))];
  }
  double compute(const Node& node, const Index& index) const;
  double matmul(const Node& node, const Index& index) const;
  double reduction(const Node& node, const Index& index) const;
  double joined(const Node& node, const Index& index) const;
  Index source(const Node& view, const Index& index) const;

  const ir::Graph& graph_;
  const Sizes& sizes_;
  Tensors values_;
};

Tensors GraphInterpreter::run() {
  for (ValueId id = 0; id < static_cast<ValueId>(graph_.nodes.size()); ++id) {
    const Node& node = graph_[id];
    if (node.op == Op::input || node.op == Op::scalar) continue;
    for_each(shape(id), [&](const Index& index) {
      values_[at(id)].push_back(rounded(compute(node, index), node.type.dtype));
    });
  }
  return std::move(values_);
}

double GraphInterpreter::compute(const Node& node, const Index& index) const {
  switch (ir::info(node.op).kind) {
    case ir::OpKind::source: return node.value;
    case ir::OpKind::matmul: return matmul(node, index);
    case ir::OpKind::view: return element(node.args[0], source(node, index));
    case ir::OpKind::cast: return element(node.args[0], index);
    case ir::OpKind::reduction: return reduction(node, index);
    case ir::OpKind::join: return joined(node, index);
    default: break;
  }
  double x[3] = {};
  for (std::size_t i = 0; i < node.args.size(); ++i) x[i] = element(node.args[i], index);
  return ir::info(node.op).reference(x);
}

double GraphInterpreter::matmul(const Node& node, const Index& index) const {
  const Index a_shape = shape(node.args[0]);
  const std::int64_t k = a_shape[a_shape.size() - (node.transpose_a ? 2 : 1)];
  const std::size_t m = index.size() - 2, n = index.size() - 1;
  double sum = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    Index a = index, b = index;
    a[m] = node.transpose_a ? i : index[m];
    a[n] = node.transpose_a ? index[m] : i;
    b[m] = node.transpose_b ? index[n] : i;
    b[n] = node.transpose_b ? i : index[n];
    sum += element(node.args[0], a) * element(node.args[1], b);
  }
  return sum;
}

double GraphInterpreter::reduction(const Node& node, const Index& index) const {
  const Index from = shape(node.args[0]);
  const bool over_row = node.op == Op::row_sum || node.op == Op::row_max;
  const std::size_t d = from.size() - (over_row ? 1 : 2);
  double sum = reduce_start(node.op);
  Index walk = index;
  for (walk[d] = 0; walk[d] < from[d]; ++walk[d]) {
    sum = reduce(node.op, sum, element(node.args[0], walk));
  }
  return sum;
}

double GraphInterpreter::joined(const Node& node, const Index& index) const {
  const std::int64_t half = shape(node.args[0]).back(), column = index.back();
  const bool by_turns = node.op == Op::interleave;
  Index from = index;
  from.back() = by_turns ? column / 2 : column % half;
  return element(node.args[by_turns ? column % 2 : column / half], from);
}

// Where an element of a view is in its operand.
Index GraphInterpreter::source(const Node& view, const Index& index) const {
  const Index from = shape(view.args[0]), to = ir::eval(view.type.shape, sizes_);
  Index result(from.size());
  switch (view.op) {
    case Op::transpose:
      for (std::size_t d = 0; d < to.size(); ++d) {
        result[static_cast<std::size_t>(view.permutation[d])] = index[d];
      }
      return result;
    case Op::slice:
      for (std::size_t d = 0; d < to.size(); ++d) {
        result[d] = view.ranges[d].start.eval(sizes_) + index[d] * view.ranges[d].step;
      }
      return result;
    case Op::reshape: {
      auto offset = static_cast<std::int64_t>(dense_offset(to, index));
      for (std::size_t d = from.size(); d-- > 0; offset /= from[d]) result[d] = offset % from[d];
      return result;
    }
    default: return broadcast_index(from, index);
  }
}

class PlanInterpreter {
 public:
  PlanInterpreter(const plan::Plan& plan, const Tensors& inputs, const Sizes& sizes)
      : graph_(plan.graph), plan_(plan), sizes_(sizes), memory_(inputs) {}
  Tensors run();

 private:
  // A value seen in memory, at indices of a larger shape.
  struct View {
    const Tensor* data;
    ir::Layout layout;
    double operator()(const Index& index) const;
  };
  View view(ValueId id) const;
  View load_view(const plan::Load& load, bool folded) const;
  void run(const plan::FusedGemm& step);
  void run(const plan::Tail& step);
  void run(const plan::Epilogue& epilogue, const ir::Shape& shape, bool folded,
           const std::vector<Tensor>& accumulators);
  void store(const plan::Store& store, const Index& space, const Index& index, double x);
  void store_part(const plan::Store& store, const Index& space, const Index& index, double x);
  std::vector<Tensor> products(const plan::GemmDesc& gemm) const;
  Tensor product(const plan::GemmDesc& gemm, const plan::Operand& operand,
                 const Index& shape) const;

  const ir::Graph& graph_;
  const plan::Plan& plan_;
  const Sizes& sizes_;
  Tensors memory_;
};

double PlanInterpreter::View::operator()(const Index& index) const {
  std::int64_t offset = layout.offset;
  const Index own = broadcast_index(layout.shape, index);
  for (std::size_t d = 0; d < own.size(); ++d) offset += own[d] * layout.strides[d];
  return data->at(static_cast<std::size_t>(offset));
}

PlanInterpreter::View PlanInterpreter::view(ValueId id) const {
  const ValueId storage = ir::storage(graph_, id);
  ir::Layout layout{0, ir::eval(graph_[storage].type.shape, sizes_), {}};
  layout.strides = TensorView::dense_strides(layout.shape);
  const auto resolved = ir::resolve(graph_, id, layout, sizes_);
  EXPECT_TRUE(resolved) << "'" << graph_[id].name << "' is no view of its memory";
  EXPECT_FALSE(memory_[at(storage)].empty() && num_elements(layout.shape) > 0)
      << "'" << graph_[id].name << "' is not in memory";
  return {&memory_[at(storage)], resolved.value_or(layout)};
}

// Varies only along the dims that the access of the load names; folded, rows go on over batches.
PlanInterpreter::View PlanInterpreter::load_view(const plan::Load& load, bool folded) const {
  View result = view(load.value);
  const std::size_t rank = result.layout.shape.size();
  for (std::size_t i = 1; i <= rank; ++i) {
    const bool moves = result.layout.shape[rank - i] > 1 && result.layout.strides[rank - i] != 0;
    const bool is_named = i > 2 && !folded
                              ? load.batched
                              : load.access == plan::Access::tile ||
                                    load.access == (i == 1 ? plan::Access::row : plan::Access::col);
    EXPECT_TRUE(!moves || is_named) << load.name << " varies along dim " << i << " from the last";
  }
  return result;
}

Tensors PlanInterpreter::run() {
  for (const plan::Step& step : plan_.steps) std::visit([this](const auto& s) { run(s); }, step);
  return std::move(memory_);
}

void PlanInterpreter::run(const plan::FusedGemm& step) {
  run(step.epilogue, space(graph_, step.gemm), step.gemm.flattened, products(step.gemm));
}

void PlanInterpreter::run(const plan::Tail& step) { run(step.epilogue, step.shape, false, {}); }

// One for each accumulator, in its order.
std::vector<Tensor> PlanInterpreter::products(const plan::GemmDesc& gemm) const {
  const Index shape = ir::eval(graph_[gemm.matmul].type.shape, sizes_);
  const Tensor whole = product(gemm, gemm.b, shape);
  if (gemm.gating == plan::Gating::none) return {whole};
  if (gemm.gating == plan::Gating::separate) return {whole, product(gemm, gemm.second_b, shape)};
  std::vector<Tensor> halves(2);
  const auto columns = static_cast<std::size_t>(shape.back());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const std::size_t column = i % columns;
    const bool by_turns = gemm.gating == plan::Gating::interleaved;
    halves[by_turns ? column % 2 : column / (columns / 2)].push_back(whole[i]);
  }
  return halves;
}

Tensor PlanInterpreter::product(const plan::GemmDesc& gemm, const plan::Operand& operand,
                                const Index& shape) const {
  const View a = view(gemm.a.value), b = view(operand.value);
  const std::int64_t k = gemm.k.eval(sizes_);
  Tensor result;
  for_each(shape, [&](const Index& index) {
    const std::size_t m = index.size() - 2, n = index.size() - 1;
    double sum = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      Index left = index, right = index;
      left[m] = gemm.a.transposed ? i : index[m];
      left[n] = gemm.a.transposed ? index[m] : i;
      right[m] = operand.transposed ? index[n] : i;
      right[n] = operand.transposed ? i : index[n];
      sum += a(left) * b(right);
    }
    result.push_back(sum);
  });
  return result;
}

void PlanInterpreter::run(const plan::Epilogue& epilogue, const ir::Shape& shape, bool folded,
                          const std::vector<Tensor>& accumulators) {
  const Index space = ir::eval(shape, sizes_);
  std::vector<View> loads;
  for (const plan::Load& load : epilogue.loads) {
    loads.push_back(load.access == plan::Access::parameter ? view(load.value)
                                                           : load_view(load, folded));
  }
  for_each(space, [&](const Index& index) {
    std::vector<double> slots;
    for (int i = 0; i < epilogue.num_accumulators; ++i) {
      slots.push_back(accumulators.at(at(i)).at(dense_offset(space, index)));
    }
    for (const View& load : loads) slots.push_back(load(index));
    for (const plan::Compute& compute : epilogue.computes) {
      double x[3] = {};
      for (std::size_t i = 0; i < 3; ++i) {
        if (compute.args[i] >= 0) x[i] = slots.at(static_cast<std::size_t>(compute.args[i]));
      }
      if (compute.op == Op::constant) {
        slots.push_back(compute.value);
      } else if (compute.op == Op::cast) {
        slots.push_back(rounded(x[0], compute.dtype));
      } else {
        slots.push_back(ir::info(compute.op).reference(x));
      }
    }
    for (const plan::Store& s : epilogue.stores) {
      store(s, space, index, slots.at(static_cast<std::size_t>(s.source)));
    }
  });
  for (const plan::Store& s : epilogue.stores) {
    for (double& x : memory_[at(s.value)]) x = rounded(x, s.dtype);
  }
}

void PlanInterpreter::store(const plan::Store& store, const Index& space, const Index& index,
                            double x) {
  Tensor& to = memory_[at(store.value)];
  if (store.part != plan::Part::whole) return store_part(store, space, index, x);
  if (store.kind == plan::StoreKind::tile) {
    to.push_back(x);
    return;
  }
  const Op op = graph_[store.value].op;
  Index shape = space;
  shape[space.size() - (op == Op::row_sum || op == Op::row_max ? 1 : 2)] = 1;
  if (to.empty()) to.assign(static_cast<std::size_t>(num_elements(shape)), reduce_start(op));
  double& sum = to[dense_offset(shape, broadcast_index(shape, index))];
  sum = reduce(op, sum, x);
}

void PlanInterpreter::store_part(const plan::Store& store, const Index& space, const Index& index,
                                 double x) {
  using plan::Part;
  Tensor& to = memory_[at(store.value)];
  Index shape = space, place = index;
  shape.back() *= 2;
  to.resize(static_cast<std::size_t>(num_elements(shape)));
  if (store.part == Part::second_half) place.back() += space.back();
  if (store.part == Part::even) place.back() *= 2;
  if (store.part == Part::odd) place.back() = place.back() * 2 + 1;
  to[dense_offset(shape, place)] = x;
}

}  // namespace

Tensors evaluate(const ir::Graph& graph, const Tensors& inputs, const Sizes& sizes) {
  return GraphInterpreter(graph, inputs, sizes).run();
}

Tensors run(const plan::Plan& plan, const Tensors& inputs, const Sizes& sizes) {
  return PlanInterpreter(plan, inputs, sizes).run();
}

Tensors random_inputs(const ir::Graph& graph, const Sizes& sizes, unsigned seed) {
  std::mt19937 random(seed);
  Tensors inputs(graph.nodes.size());
  for (std::size_t id = 0; id < inputs.size(); ++id) {
    const Node& node = graph.nodes[id];
    if (node.op != Op::input && node.op != Op::scalar) continue;
    const std::int64_t count = num_elements(ir::eval(node.type.shape, sizes));
    for (std::int64_t i = 0; i < count; ++i) {
      const double x = static_cast<double>(random() % 4001) / 1000 - 2;
      inputs[id].push_back(node.type.dtype == DType::boolean ? (x > 0 ? 1 : 0)
                                                             : round_to(x, node.type.dtype));
    }
  }
  return inputs;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) {
    return (x == y && std::signbit(x) == std::signbit(y)) || (x != x && y != y);
  });
}

}  // namespace epifuse::test
