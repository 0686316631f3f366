// What makes random graphs: a start, then ops that type, late values more often.
#pragma once

#include <random>
#include <span>

#include "check/random_graph.h"

namespace epifuse {

class RandomGraphGenerator {
 public:
  explicit RandomGraphGenerator(std::uint64_t seed) : random_(seed) {}
  RandomGraph make();

 private:
  static constexpr std::int64_t kMostElements = 60'000;  // of a tensor

  std::size_t below(std::size_t limit) { return random_() % limit; }
  bool chance(std::size_t percent) { return below(100) < percent; }
  std::int64_t one_of(std::span<const std::int64_t> list) { return list[below(list.size())]; }
  ir::ValueId last() const { return static_cast<ir::ValueId>(graph_.nodes.size()) - 1; }
  ir::ValueId pick();
  ir::ValueId pick_of(DType dtype);

  Dim size(const char* symbol, std::span<const std::int64_t> list);
  void pick_sizes();
  std::int64_t value(const Dim& dim) const { return dim.eval(sizes_); }
  std::int64_t num_elements(const ir::Shape& shape) const;

  ir::ValueId add_input(DType dtype, const ir::Shape& shape);
  void add_vectors(ir::Shape space);  // a copy: what it adds moves the shapes of the graph
  bool try_append(ir::Node node);
  DType operand_dtype();
  DType weights_dtype();
  void no_batch();
  Dim blocks(const char* symbol, const Dim& size);
  ir::ValueId add_either_way(DType dtype, const ir::Shape& lead, const Dim& rows, const Dim& cols);
  ir::ValueId add_start();
  ir::ValueId add_product();
  ir::ValueId add_grouped();
  ir::ValueId add_scaled();
  ir::ValueId add_k_grouped();
  ir::ValueId add_halves();
  ir::ValueId add_heads();
  ir::ValueId add_wide_batch();
  void add_projection(ir::ValueId x);
  void add_beside(ir::ValueId product);
  void add_quantised(ir::ValueId x);
  void add_gate(ir::ValueId gate);
  void add_chain(ir::ValueId value);
  void add_op();
  void add_elementwise();
  void add_cast();
  void add_reduction();
  void add_view();
  void add_slice(ir::ValueId operand);
  void add_join();
  void add_matmul();
  void add_lookup();
  void add_outputs();

  std::mt19937_64 random_;
  ir::Graph graph_{"random", {}, {}};
  Sizes sizes_;
  Dim m_, n_, k_, b_;
  DType dtype_ = DType::bf16;  // of the epilogue, and of products that are not of 8 bits
  bool is_fp8_ = false, is_i8_ = false;
};

}  // namespace epifuse
