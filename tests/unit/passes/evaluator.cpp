// A small float64 interpreter of graphs.
#include "evaluator.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>

#include "base/float_types.h"

namespace epifuse::testing {
namespace {

using Index = std::vector<std::int64_t>;
using ir::Op;

std::int64_t count(const Index& shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

// The index of element number `at` in row-major order.
Index unravel(std::int64_t at, const Index& shape) {
  Index index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    index[d] = at % shape[d];
    at /= shape[d];
  }
  return index;
}

std::size_t ravel(const Index& index, const Index& shape) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
  return static_cast<std::size_t>(at);
}

// Element of `x` at an index of a shape that x broadcasts to.
double broadcast_at(const Tensor& x, const Index& index) {
  Index own(index.end() - static_cast<std::ptrdiff_t>(x.shape.size()), index.end());
  for (std::size_t d = 0; d < own.size(); ++d) {
    if (x.shape[d] == 1) own[d] = 0;
  }
  return x.data[ravel(own, x.shape)];
}

// A tensor whose elements are given by their index.
Tensor generate(const Index& shape, const std::function<double(const Index&)>& element) {
  Tensor result{shape, {}};
  for (std::int64_t i = 0; i < count(shape); ++i) {
    result.data.push_back(element(unravel(i, shape)));
  }
  return result;
}

Tensor swap_last_dims(const Tensor& x) {
  Index shape = x.shape;
  std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  return generate(shape, [&](Index index) {
    std::swap(index[index.size() - 1], index[index.size() - 2]);
    return x.data[ravel(index, x.shape)];
  });
}

Tensor matmul(const Tensor& a, const Tensor& b, const Index& shape) {
  const std::int64_t k = a.shape.back();
  return generate(shape, [&](Index at_a) {
    Index at_b = at_a;
    double sum = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      at_a.back() = i;
      at_b[at_b.size() - 2] = i;
      sum += broadcast_at(a, at_a) * broadcast_at(b, at_b);
    }
    return sum;
  });
}

Tensor reduce(const Tensor& x, const Index& shape, Op op) {
  const bool over_row = op == Op::row_sum || op == Op::row_max;
  const bool is_sum = op == Op::row_sum || op == Op::col_sum;
  const std::size_t dim = x.shape.size() - (over_row ? 1 : 2);
  return generate(shape, [&](Index index) {
    double result = is_sum ? 0 : -std::numeric_limits<double>::infinity();
    for (index[dim] = 0; index[dim] < x.shape[dim]; ++index[dim]) {
      const double element = x.data[ravel(index, x.shape)];
      if (is_sum) result += element;
      if (!is_sum && (element > result || std::isnan(element))) result = element;
    }
    return result;
  });
}

constexpr std::int64_t kBlock = 128;  // columns

// Of all elements of the block that begins there.
double max_of_block(const Tensor& x, const Index& first, std::int64_t rows) {
  const std::size_t dim = x.shape.size() - 2;
  const std::int64_t end = std::min(first.back() + kBlock, x.shape.back());
  double result = -std::numeric_limits<double>::infinity();
  Index index = first;
  for (; index[dim] < first[dim] + rows; ++index[dim]) {
    for (index.back() = first.back(); index.back() < end; ++index.back()) {
      const double element = x.data[ravel(index, x.shape)];
      if (element > result || std::isnan(element)) result = element;
    }
  }
  return result;
}

Tensor block_max(const Tensor& x, std::int64_t rows) {
  const std::size_t dim = x.shape.size() - 2;
  Tensor result = x;
  for (std::int64_t i = 0; i < count(x.shape); ++i) {
    const Index index = unravel(i, x.shape);
    Index first = index;
    first[dim] -= first[dim] % rows;
    first.back() -= first.back() % kBlock;
    double& out = result.data[static_cast<std::size_t>(i)];
    out = first == index ? max_of_block(x, first, rows) : result.data[ravel(first, x.shape)];
  }
  return result;
}

Tensor block_first(const Tensor& x, std::int64_t rows, const Index& shape) {
  return generate(shape, [&](Index index) {
    index[index.size() - 2] *= rows;
    index.back() *= kBlock;
    return x.data[ravel(index, x.shape)];
  });
}

class Evaluator {
 public:
  Evaluator(const ir::Graph& graph, const Sizes& sizes, const Tensors& inputs)
      : graph_(graph), sizes_(sizes), inputs_(inputs) {}

  Tensors run(Rounding rounding) {
    for (const ir::Node& node : graph_.nodes) {
      Tensor value = compute(node);
      const bool rounds = rounding == Rounding::every_value || node.op == Op::cast;
      for (double& x : value.data) {
        if (rounds || node.op == Op::constant) x = round_to(x, node.type.dtype);
      }
      values_.push_back(std::move(value));
    }
    Tensors outputs;
    for (const ir::Output& output : graph_.outputs) {
      outputs[output.name] = values_[static_cast<std::size_t>(output.value)];
    }
    return outputs;
  }

 private:
  const Tensor& arg(const ir::Node& node, std::size_t i) const {
    return values_[static_cast<std::size_t>(node.args[i])];
  }

  Index shape_of(const ir::Node& node) const {
    Index shape;
    for (const Dim& dim : node.type.shape) shape.push_back(dim.eval(sizes_));
    return shape;
  }

  Tensor compute(const ir::Node& node) const {
    const Index shape = shape_of(node);
    switch (node.op) {
      case Op::input:
      case Op::scalar: return inputs_.at(node.name);
      case Op::constant: return {shape, {node.value}};
      case Op::matmul:
        return matmul(node.transpose_a ? swap_last_dims(arg(node, 0)) : arg(node, 0),
                      node.transpose_b ? swap_last_dims(arg(node, 1)) : arg(node, 1), shape);
      case Op::reshape: return {shape, arg(node, 0).data};
      case Op::block_max: return block_max(arg(node, 0), node.block_rows);
      case Op::block_first: return block_first(arg(node, 0), node.block_rows, shape);
      case Op::cast: return arg(node, 0);
      case Op::transpose:
      case Op::slice: return pick(node, shape);
      case Op::concat:
      case Op::interleave: return joined(node, shape);
      case Op::broadcast:
        return generate(shape,
                        [&](const Index& index) { return broadcast_at(arg(node, 0), index); });
      default:
        return ir::is_reduction(node.op) ? reduce(arg(node, 0), shape, node.op)
                                         : elementwise(node, shape);
    }
  }

  Tensor joined(const ir::Node& node, const Index& shape) const {
    const std::int64_t half = arg(node, 0).shape.back();
    return generate(shape, [&](const Index& index) {
      const bool by_turns = node.op == Op::interleave;
      const std::int64_t column = index.back();
      Index from = index;
      from.back() = by_turns ? column / 2 : column % half;
      const Tensor& x = arg(node, static_cast<std::size_t>(by_turns ? column % 2 : column / half));
      return x.data[ravel(from, x.shape)];
    });
  }

  // transpose and slice: each element is one of the operand's.
  Tensor pick(const ir::Node& node, const Index& shape) const {
    const Tensor& x = arg(node, 0);
    return generate(shape, [&](const Index& index) {
      Index from(index.size());
      for (std::size_t d = 0; d < index.size(); ++d) {
        if (node.op == Op::transpose) {
          from[static_cast<std::size_t>(node.permutation[d])] = index[d];
        } else {
          from[d] = node.ranges[d].start.eval(sizes_) + index[d] * node.ranges[d].step;
        }
      }
      return x.data[ravel(from, x.shape)];
    });
  }

  Tensor elementwise(const ir::Node& node, const Index& shape) const {
    return generate(shape, [&](const Index& index) {
      double operands[3] = {};
      for (std::size_t i = 0; i < node.args.size(); ++i) {
        operands[i] = broadcast_at(arg(node, i), index);
      }
      return ir::info(node.op).reference(operands);
    });
  }

  const ir::Graph& graph_;
  const Sizes& sizes_;
  const Tensors& inputs_;
  std::vector<Tensor> values_;
};

double random_element(bool special, std::mt19937_64& random) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kSpecial[] = {0.0, -0.0, kInfinity, -kInfinity,
                                 std::numeric_limits<double>::quiet_NaN()};
  const double normal = std::normal_distribution<double>(0, 2)(random);
  const std::uint64_t pick = random();
  return special && pick % 8 == 0 ? kSpecial[(pick >> 8) % std::size(kSpecial)] : normal;
}

}  // namespace

Tensors evaluate(const ir::Graph& graph, const Sizes& sizes, const Tensors& inputs,
                 Rounding rounding) {
  return Evaluator(graph, sizes, inputs).run(rounding);
}

Tensors random_inputs(const ir::Graph& graph, const Sizes& sizes, bool special,
                      std::mt19937_64& random) {
  Tensors inputs;
  for (const ir::Node& node : graph.nodes) {
    if (node.op != Op::input && node.op != Op::scalar) continue;
    Index shape;
    for (const Dim& dim : node.type.shape) shape.push_back(dim.eval(sizes));
    inputs[node.name] = generate(shape, [&](const Index&) {
      return round_to(random_element(special, random), node.type.dtype);
    });
  }
  return inputs;
}

Sizes small_sizes(const ir::Graph& graph) {
  Sizes sizes;
  for (const ir::Node& node : graph.nodes) {
    for (const Dim& dim : node.type.shape) {
      for (const std::string& symbol : dim.symbols()) {
        sizes.emplace(symbol, static_cast<std::int64_t>(sizes.size()) + 2);
      }
    }
  }
  return sizes;
}

}  // namespace epifuse::testing
