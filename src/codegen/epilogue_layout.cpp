#include "codegen/epilogue_layout.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include "base/check.h"
#include "codegen/bound.h"
#include "codegen/epilogue_blocks.h"
#include "plan/limits.h"

namespace epifuse::codegen {
namespace {

using plan::Access;
using plan::Epilogue;
using plan::StoreKind;

// Each list of a product's operands is an array of the block: what one entry of it takes, and where
// the integers are that its rows may go by.
struct Array {
  std::size_t offset, entry_bytes, integers_offset;
};

using Block = abi::GemmParams;
constexpr targets::OperandLimits kOfGemm = targets::kBlockLimits.gemm,
                                 kOfTail = targets::kBlockLimits.tail;
static_assert(std::extent_v<decltype(Block::parameters)> == kOfGemm.parameters);
static_assert(std::extent_v<decltype(Block::scalars)> == kOfGemm.scalars);
static_assert(std::extent_v<decltype(Block::rows)> == kOfGemm.rows);
static_assert(std::extent_v<decltype(Block::cols)> == kOfGemm.cols);
static_assert(std::extent_v<decltype(Block::plain_tiles)> == kOfGemm.tiles);
static_assert(std::extent_v<decltype(Block::non_tma_stores)> == kOfGemm.stores);
static_assert(std::extent_v<decltype(Block::partials)> == kOfGemm.stores);
static_assert(std::extent_v<decltype(Block::full)> == std::max(kOfGemm.tiles, kOfGemm.stores));
static_assert(std::extent_v<decltype(Block::rows_of_cols)> == kOfGemm.cols);
static_assert(std::extent_v<decltype(Block::rows_of_tiles)> == kOfGemm.tiles);
static_assert(std::extent_v<decltype(Block::rows_of_stores)> == kOfGemm.stores);
static_assert(std::extent_v<decltype(abi::TailParams::parameters)> == kOfTail.parameters);
static_assert(std::extent_v<decltype(abi::TailParams::loads)> == kOfTail.loads);
static_assert(std::extent_v<decltype(abi::TailParams::stores)> == kOfTail.stores);

Array array_of(List list) {
  switch (list) {
    case List::parameters: return {offsetof(Block, parameters), sizeof(float), 0};
    case List::scalars: return {offsetof(Block, scalars), sizeof(abi::Vector), 0};
    case List::rows: return {offsetof(Block, rows), sizeof(abi::Vector), 0};
    case List::cols:
      return {offsetof(Block, cols), sizeof(abi::Vector), offsetof(Block, rows_of_cols)};
    case List::tiles:
      return {offsetof(Block, plain_tiles), sizeof(abi::Matrix), offsetof(Block, rows_of_tiles)};
    case List::results:
      return {offsetof(Block, non_tma_stores), sizeof(abi::Matrix),
              offsetof(Block, rows_of_stores)};
    case List::partials: return {offsetof(Block, partials), sizeof(abi::Partials), 0};
  }
  return {};
}

List list_of(Access access, bool transposed) {
  switch (access) {
    case Access::parameter: return List::parameters;
    case Access::scalar: return List::scalars;
    case Access::row: return transposed ? List::cols : List::rows;
    case Access::col: return transposed ? List::rows : List::cols;
    case Access::tile: return List::tiles;
  }
  return List::parameters;
}

// Of TailParams::loads.
constexpr std::array kTailOrder{List::rows, List::cols, List::tiles, List::scalars};

bool is_load(List list) { return list != List::results && list != List::partials; }

}  // namespace

EpilogueLayout::EpilogueLayout(const Epilogue& epilogue, bool transposed) {
  EPIFUSE_CHECK(!plan::exceeded(plan::demand_of(epilogue), targets::kBlockLimits),
                "an epilogue that its parameter block has no room for");
  add_loads(epilogue, transposed);
  add_stores(epilogue, transposed);
  const auto num_maxima = static_cast<int>(block_maxima(epilogue).size());
  takes_maxima_ = num_maxima > 0;
  square_maxima_ = epilogue.has_squares() ? num_maxima : 0;
  const targets::OperandLimits& limits = epilogue.has_accumulator() ? kOfGemm : kOfTail;
  const auto room = static_cast<std::size_t>(limits.parameters - size(List::parameters));
  for (const plan::Compute& compute : epilogue.computes) {
    if (compute.op != ir::Op::constant || constants_.size() == room) continue;
    constants_.push_back(compute.value);
  }
  if (epilogue.has_accumulator()) {
    for (Place& place : loads_) place_in_gemm(place);
    for (Place& place : stores_) place_in_gemm(place);
  } else {
    place_in_tail();
  }
}

void EpilogueLayout::add_loads(const Epilogue& epilogue, bool transposed) {
  loads_.reserve(epilogue.loads.size());
  for (const plan::Load& load : epilogue.loads) {
    Place place;
    place.list = list_of(load.access, transposed);
    place.index = sizes_[static_cast<std::size_t>(place.list)]++;
    place.value = load.value;
    place.bytes = static_cast<int>(size_bytes(load.dtype));
    place.is_bool = load.dtype == DType::boolean;
    place.is_indexed = load.lookup >= 0 && !load.by_group;
    loads_.push_back(place);
  }
}

void EpilogueLayout::add_stores(const Epilogue& epilogue, bool transposed) {
  const auto rank = [&](const plan::Store& store) {
    if (!epilogue.has_accumulator() || !reduces(store.kind)) return 0;
    return reduces_rows(store.kind) != transposed ? 1 : 2;
  };
  stores_.resize(epilogue.stores.size());
  for (int turn = 0; turn <= 2; ++turn) {
    for (std::size_t i = 0; i < stores_.size(); ++i) {
      const plan::Store& store = epilogue.stores[i];
      if (rank(store) != turn) continue;
      result_order_.push_back(static_cast<int>(i));
      Place& place = stores_[i];
      place.list = turn == 0 ? List::results : List::partials;
      place.index = sizes_[static_cast<std::size_t>(place.list)]++;
      place.value = store.value;
      place.bytes = static_cast<int>(size_bytes(stored_dtype(store)));
      place.is_bool = stored_dtype(store) == DType::boolean;
      place.is_block = store.kind == StoreKind::block_first;
      place.is_indexed = store.index >= 0;
    }
  }
}

void EpilogueLayout::place_in_gemm(Place& place) const {
  const Array array = array_of(place.list);
  const auto index = static_cast<std::size_t>(place.index);
  place.offset = array.offset + index * array.entry_bytes;
  // A row vector or a scalar is looked up in the one row there is.
  place.is_indexed = place.is_indexed && array.integers_offset > 0;
  if (place.is_indexed) {
    place.integers_offset = array.integers_offset + index * sizeof(abi::Integers);
  }
  if (place.list == List::rows) place.staging = Staging::vector;
  if (place.list != List::tiles && place.list != List::results) return;
  // Bools and bytes that are read are moved by hand; only results come in bytes often.
  if (place.is_bool || place.is_block || (place.list == List::tiles && place.bytes == 1)) return;
  place.staging = Staging::chunks;
  const std::size_t maps = offsetof(Block, full) + index * sizeof(abi::FullSizeMaps);
  if (place.list == List::tiles) {
    place.map_offset = maps + offsetof(abi::FullSizeMaps, load);
  } else {
    place.map_offset = maps + offsetof(abi::FullSizeMaps, store);
    place.cut_map_offset = maps + offsetof(abi::FullSizeMaps, cut_store);
  }
}

void EpilogueLayout::place_in_tail() {
  std::array<int, kNumLists> first{};  // entry of each list of loads
  int next = 0;
  for (const List list : kTailOrder) {
    first[static_cast<std::size_t>(list)] = next;
    next += size(list);
  }
  for (Place& place : loads_) {
    const bool is_parameter = place.list == List::parameters;
    const int entry = first[static_cast<std::size_t>(place.list)] + place.index;
    const std::size_t entry_bytes = is_parameter ? sizeof(float) : sizeof(abi::Strided);
    place.offset =
        (is_parameter ? offsetof(abi::TailParams, parameters) : offsetof(abi::TailParams, loads)) +
        static_cast<std::size_t>(entry) * entry_bytes;
  }
  for (Place& place : stores_) {
    place.offset = offsetof(abi::TailParams, stores) +
                   static_cast<std::size_t>(place.index) * sizeof(abi::Strided);
  }
}

std::vector<int> EpilogueLayout::of(List list) const {
  const std::vector<Place>& places = is_load(list) ? loads_ : stores_;
  std::vector<int> found(static_cast<std::size_t>(size(list)));
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].list == list) {
      found[static_cast<std::size_t>(places[i].index)] = static_cast<int>(i);
    }
  }
  return found;
}

unsigned EpilogueLayout::indexed(List list) const {
  unsigned bits = 0;
  for (const Place& place : is_load(list) ? loads_ : stores_) {
    if (place.list == list && place.is_indexed) bits |= 1u << place.index;
  }
  return bits;
}

unsigned EpilogueLayout::unstaged(List list) const {
  unsigned bits = 0;
  for (const Place& place : is_load(list) ? loads_ : stores_) {
    if (place.list == list && place.staging == Staging::none) bits |= 1u << place.index;
  }
  return bits;
}

unsigned EpilogueLayout::of_blocks() const {
  unsigned bits = 0;
  for (const Place& place : stores_) {
    if (place.is_block) bits |= 1u << place.index;
  }
  return bits;
}

std::vector<int> EpilogueLayout::in_memory() const {
  std::vector<int> order;
  for (const List list : kTailOrder) {
    std::ranges::copy(of(list), std::back_inserter(order));
  }
  return order;
}

void EpilogueLayout::set_parameters(const std::vector<double>& scalars, float* out) const {
  for (const Place& place : loads_) {
    if (place.list != List::parameters) continue;
    out[place.index] = static_cast<float>(scalars[static_cast<std::size_t>(place.value)]);
  }
  for (std::size_t i = 0; i < constants_.size(); ++i) {
    out[static_cast<std::size_t>(size(List::parameters)) + i] = static_cast<float>(constants_[i]);
  }
}

}  // namespace epifuse::codegen
