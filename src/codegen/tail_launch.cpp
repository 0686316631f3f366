// Fills the parameter block of a tail kernel: merges dims that lie jointly contiguous, picks the
// order of the rest, and shares the work among blocks.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/ceil_div.h"
#include "base/check.h"
#include "base/strided.h"
#include "codegen/epilogue_layout.h"
#include "codegen/integers.h"
#include "codegen/tail.h"
#include "kernels/abi.h"

namespace epifuse::codegen {
namespace {

using plan::StoreKind;

constexpr std::int64_t kBlocksPerSm = 64;          // beyond these a block takes several turns
constexpr std::int64_t kBlocksOfLookupsPerSm = 8;  // which take longer to start
constexpr std::int64_t kMaxGrid = 0x7fffffff;
constexpr int kWarp = 32;
constexpr std::int64_t kVectorsForWarp = 4 * kWarp;  // a row this short is a warp's work

// One load or store: where it begins and how it steps along each dim, and how numbers along one of
// them are looked up.
struct Operand {
  char* data = nullptr;
  int element_bytes = 1;
  std::vector<std::int64_t> strides;
  std::vector<std::int64_t> is_looked_up;  // 1 of one dim at most, 0 of the others
  abi::Lookup lookup{};
};

// The tail as loops: sizes outermost first, loads in the order of TailParams, then stores.
struct Loops {
  std::vector<std::int64_t> sizes;
  std::vector<Operand> operands;

  std::size_t rank() const { return sizes.size(); }
  std::int64_t count() const {
    return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
  }
  bool is_looked_up(std::size_t dim) const {
    return std::any_of(operands.begin(), operands.end(),
                       [dim](const Operand& operand) { return operand.is_looked_up[dim] != 0; });
  }
  // What has an entry for each dim beside the sizes.
  std::vector<std::vector<std::int64_t>*> lists() {
    std::vector<std::vector<std::int64_t>*> all;
    for (Operand& operand : operands) {
      all.insert(all.end(), {&operand.strides, &operand.is_looked_up});
    }
    return all;
  }
};

// Strides of a bound value along the tail's dims, aligned at the right; 0 where it repeats.
Operand operand_of(const BoundTensor& tensor, DType dtype, const std::vector<std::int64_t>& sizes) {
  const ir::Layout& layout = tensor.layout;
  Operand operand;
  operand.element_bytes = static_cast<int>(size_bytes(dtype));
  operand.data = static_cast<char*>(tensor.data) + layout.offset * operand.element_bytes;
  operand.strides = ir::strides_over(layout, sizes);
  operand.is_looked_up.assign(sizes.size(), 0);
  for (std::size_t d = 0; d < layout.shape.size(); ++d) {
    const std::int64_t size = sizes[sizes.size() - layout.shape.size() + d];
    EPIFUSE_CHECK(layout.shape[d] == 1 || layout.shape[d] == size,
                  fmt::format("dim {} of a tail's operand is {}, the tail's is {}", d,
                              layout.shape[d], size));
  }
  return operand;
}

void look_up(Operand& operand, std::size_t dim, std::int64_t stride, abi::LookupKind kind,
             const abi::Integers& integers) {
  operand.strides[dim] = stride;  // also where the dim has one row only
  operand.is_looked_up[dim] = 1;
  operand.lookup = {integers, kind, 0};
}

// The rows of a load that are looked up.
void look_up(const plan::Plan& plan, const plan::Load& load, const Bound& bound, Operand& operand) {
  const ir::Graph& graph = plan.graph;
  const auto lookup = ir::lookup(graph, load.value);
  EPIFUSE_CHECK(lookup.has_value(), "a tail's rows are looked up along one dim");
  const ir::Layout& layout = bound[load.value].layout;
  const ir::Node& node = graph[lookup->node];
  look_up(operand, operand.strides.size() - layout.shape.size() + lookup->dim,
          layout.strides[lookup->dim],
          load.by_group ? abi::LookupKind::ends : abi::LookupKind::index,
          kernel_integers(graph, node, bound));
}

// The rows of a result that are put where an index says: those of its first dim.
void put_rows(const plan::Plan& plan, const plan::Store& store, const Bound& bound,
              Operand& operand) {
  const ir::Layout& layout = bound[store.value].layout;
  look_up(operand, operand.strides.size() - layout.shape.size(), layout.strides.front(),
          abi::LookupKind::put_rows, kernel_integers(plan.graph, plan.graph[store.value], bound));
}

// As a tail has them before its rows are put: of the size of its own first dim.
BoundTensor rows_to_put(BoundTensor tensor, const std::vector<std::int64_t>& sizes) {
  const std::size_t rank = tensor.layout.shape.size();
  tensor.layout.shape.front() = sizes[sizes.size() - rank];
  return tensor;
}

// As a tail has them: with all rows and columns of the blocks.
BoundTensor all_of_blocks(BoundTensor tensor, const std::vector<std::int64_t>& sizes) {
  std::copy(sizes.end() - 2, sizes.end(), tensor.layout.shape.end() - 2);
  return tensor;
}

Loops loops_of(const plan::Plan& plan, const plan::Tail& tail, const EpilogueLayout& layout,
               const Bound& bound) {
  Loops loops;
  loops.sizes = ir::eval(tail.shape, bound.sizes);
  const auto add = [&](const BoundTensor& tensor, DType dtype) -> Operand& {
    loops.operands.push_back(operand_of(tensor, dtype, loops.sizes));
    return loops.operands.back();
  };
  for (int i : layout.in_memory()) {
    const plan::Load& load = tail.epilogue.loads[static_cast<std::size_t>(i)];
    Operand& operand = add(bound[load.value], load.dtype);
    if (load.lookup >= 0) look_up(plan, load, bound, operand);
  }
  for (const plan::Store& store : tail.epilogue.stores) {
    const bool puts_rows = store.index >= 0;
    BoundTensor tensor = stored(bound, store);
    if (store.kind == StoreKind::block_first) tensor = all_of_blocks(tensor, loops.sizes);
    Operand& operand = add(puts_rows ? rows_to_put(tensor, loops.sizes) : tensor, store.dtype);
    if (puts_rows) put_rows(plan, store, bound, operand);
    const std::size_t rank = loops.rank();
    if (reduces_rows(store.kind)) operand.strides[rank - 1] = 0;
    if (reduces_columns(store.kind)) operand.strides[rank - 2] = 0;
  }
  return loops;
}

// Elementwise work may go in any order: the largest steps of the first store outermost.
void sort_dims(Loops& loops, std::size_t first_store) {
  const std::vector<std::int64_t> key = loops.operands[first_store].strides;
  std::vector<std::size_t> order(loops.rank());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return key[a] > key[b]; });
  const auto permute = [&](std::vector<std::int64_t>& values) {
    std::vector<std::int64_t> sorted;
    for (std::size_t d : order) sorted.push_back(values[d]);
    values = std::move(sorted);
  };
  permute(loops.sizes);
  for (std::vector<std::int64_t>* list : loops.lists()) permute(*list);
}

// The last `fixed` dims keep their meaning: the kernel reduces along one of them.
void merge_dims(Loops& loops, std::size_t fixed) {
  const auto lists = loops.lists();
  join_dims(loops.sizes, lists, fixed, [&](std::size_t d) { return loops.is_looked_up(d); });
  while (loops.rank() < 2) {
    loops.sizes.insert(loops.sizes.begin(), 1);
    for (std::vector<std::int64_t>* list : lists) list->insert(list->begin(), 0);
  }
  if (loops.rank() > std::size_t{abi::kMaxRank}) {
    throw ArgumentError(fmt::format(
        "elementwise work over {} dims that cannot be merged; a kernel takes at most {}",
        loops.rank(), abi::kMaxRank));
  }
}

bool moves_in_vectors(const Operand& operand, const std::vector<std::int64_t>& sizes, int vector) {
  if (operand.strides.back() != 1 || operand.is_looked_up.back() != 0) return false;
  const std::int64_t bytes = std::min(16, vector * operand.element_bytes);
  if (reinterpret_cast<std::uintptr_t>(operand.data) % static_cast<std::uintptr_t>(bytes) != 0) {
    return false;
  }
  for (std::size_t d = 0; d + 1 < sizes.size(); ++d) {
    if (operand.strides[d] * operand.element_bytes % bytes != 0) return false;
  }
  return true;
}

// Blocks for the matrix of the last two dims, and the threads side by side in it.
void share_matrix(abi::TailParams& p, const TailShape& shape, std::int64_t num_outer,
                  std::int64_t blocks_per_sm, const targets::DeviceLimits& limits) {
  const std::int64_t rows = p.sizes[abi::kMaxRank - 2], cols = p.sizes[abi::kMaxRank - 1];
  const std::int64_t vectors = ceil_div(cols, shape.vector);
  const std::int64_t most = std::max<std::int64_t>(1, limits.num_sms * blocks_per_sm / num_outer);
  std::int64_t blocks = 1;
  p.lanes = kWarp;
  switch (shape.kind) {
    case TailKind::elementwise:
      blocks = ceil_div(rows * vectors, std::int64_t{abi::kTailThreads} * shape.chunks);
      break;
    case TailKind::row_reduction:
      if (vectors > kVectorsForWarp) p.lanes = abi::kTailThreads;
      blocks = ceil_div(rows, abi::kTailThreads / p.lanes);
      break;
    case TailKind::column_reduction:
      // Narrower strips until there is one for every multiprocessor, but no narrower than a sector
      // of memory (two lanes).
      while (p.lanes > 2 && ceil_div(vectors, p.lanes) * num_outer < limits.num_sms) p.lanes /= 2;
      blocks = ceil_div(vectors, p.lanes);
      break;
    case TailKind::blocks:  // each is a warp's work
      blocks = ceil_div(rows * ceil_div(cols, ir::kBlockColumns), abi::kTailThreads / kWarp);
      break;
    case TailKind::squares: blocks = rows / ir::kSquareRows * (cols / ir::kBlockColumns); break;
  }
  p.inner_blocks = static_cast<int>(std::clamp<std::int64_t>(blocks, 1, most));
}

void copy_operand(abi::Strided& to, const Operand& from) {
  const std::size_t missing = std::size_t{abi::kMaxRank} - from.strides.size();
  to.data = from.data;
  for (std::size_t d = 0; d < from.strides.size(); ++d) to.strides[missing + d] = from.strides[d];
}

void copy_lookup(abi::Lookup& to, const Operand& from) {
  to = from.lookup;
  const auto dim = std::find(from.is_looked_up.begin(), from.is_looked_up.end(), 1);
  to.dim = abi::kMaxRank - static_cast<int>(from.is_looked_up.end() - dim);
}

// Whether there is anything to write: a reduction along a dim of size 0 still writes its identity.
bool writes_nothing(const Loops& loops, TailKind kind) {
  for (std::size_t d = 0; d < loops.rank(); ++d) {
    const bool reduced = (kind == TailKind::row_reduction && d + 1 == loops.rank()) ||
                         (kind == TailKind::column_reduction && d + 2 == loops.rank());
    if (loops.sizes[d] == 0 && !reduced) return true;
  }
  return false;
}

}  // namespace

Launch tail_launch(const plan::Plan& plan, const plan::Tail& tail, const Bound& bound,
                   const targets::DeviceLimits& limits) {
  const TailShape shape = tail_shape(tail.epilogue);
  const EpilogueLayout layout(tail.epilogue);
  Loops loops = loops_of(plan, tail, layout, bound);
  Launch launch;
  launch.block = abi::kTailThreads;
  launch.overlaps_previous = true;
  launch.grid = 0;
  if (writes_nothing(loops, shape.kind)) return launch;

  const std::size_t num_stores = tail.epilogue.stores.size();
  const std::size_t num_loads = loops.operands.size() - num_stores;
  const bool keeps_rows =
      shape.kind == TailKind::column_reduction || shape.kind == TailKind::squares;
  const std::size_t fixed = shape.kind == TailKind::elementwise ? 0 : keeps_rows ? 2 : 1;
  if (shape.kind == TailKind::elementwise) sort_dims(loops, num_loads);
  merge_dims(loops, fixed);

  abi::LookupTailParams all{};
  abi::TailParams& p = all.tail;
  std::fill(std::begin(p.sizes), std::end(p.sizes), 1);
  std::copy(loops.sizes.begin(), loops.sizes.end(), std::end(p.sizes) - loops.rank());
  for (std::size_t i = 0; i < loops.operands.size(); ++i) {
    const bool vector = moves_in_vectors(loops.operands[i], loops.sizes, shape.vector);
    if (i < num_loads) {
      copy_operand(p.loads[i], loops.operands[i]);
      copy_lookup(all.loads[i], loops.operands[i]);
      p.vector_loads |= static_cast<unsigned>(vector) << i;
    } else {
      copy_operand(p.stores[i - num_loads], loops.operands[i]);
      copy_lookup(all.stores[i - num_loads], loops.operands[i]);
      p.vector_stores |= static_cast<unsigned>(vector) << (i - num_loads);
    }
  }
  layout.set_parameters(bound.scalars, p.parameters);
  std::int64_t num_outer = 1;
  for (int d = 0; d < abi::kMaxRank - 2; ++d) num_outer *= p.sizes[d];
  const bool with_lookups = looks_up(tail.epilogue);
  share_matrix(p, shape, num_outer, with_lookups ? kBlocksOfLookupsPerSm : kBlocksPerSm, limits);
  launch.grid =
      static_cast<unsigned>(p.inner_blocks * std::min(num_outer, kMaxGrid / p.inner_blocks));
  set_params(launch, &all, with_lookups ? sizeof all : sizeof p);
  return launch;
}

}  // namespace epifuse::codegen
