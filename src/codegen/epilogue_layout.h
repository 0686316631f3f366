// Where each operand of an epilogue is: in the kernel's text, in its parameter block, on its way.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "kernels/abi.h"
#include "plan/epilogue.h"

namespace epifuse::codegen {

// The lists that operands are numbered in. Of a product's stores, results are those in full and
// partials what its tiles add to a reduction; of a tail all are results.
enum class List : std::uint8_t { parameters, scalars, rows, cols, tiles, results, partials };
constexpr std::size_t kNumLists = 7;

// How an operand moves between memory and the epilogue of a product; a tail stages nothing.
enum class Staging : std::uint8_t {
  none,    // each thread on its own
  vector,  // a tile's part of it is in shared memory, as f32
  chunks,  // 64 columns at a time through shared memory, unless no tensor map fits its memory; no
           // bools, and no loads of bytes
};

// Offsets are in bytes, into abi::GemmParams, or into the abi::TailParams of a tail.
struct Place {
  List list = List::parameters;
  int index = 0;           // in the list
  ir::ValueId value = -1;  // of the plan
  int bytes = 0;           // of an element
  bool is_bool = false;    // which nothing stages
  bool is_block = false;   // the first element of each block, the same
  Staging staging = Staging::none;
  bool is_indexed = false;  // its rows are looked up, or put where an index says
  std::size_t offset = 0;   // of its entry: a float, Vector, Matrix, Partials or Strided
  // Of a product: of the maps of what is staged in chunks, and of the integers that rows go by.
  std::size_t map_offset = 0, cut_map_offset = 0, integers_offset = 0;
};

// Computed from an epilogue; the kernel's text, its shared memory and its launch ask it.
class EpilogueLayout {
 public:
  // Of the transposed result rows and columns exchange their roles. Throws InternalError for an
  // epilogue that exceeds targets::kBlockLimits.
  explicit EpilogueLayout(const plan::Epilogue& epilogue, bool transposed = false);

  const std::vector<Place>& loads() const { return loads_; }  // as Epilogue::loads
  const std::vector<Place>& stores() const { return stores_; }
  int size(List list) const { return sizes_[static_cast<std::size_t>(list)]; }
  // Indices into Epilogue::loads, or into Epilogue::stores, in order of the list.
  std::vector<int> of(List list) const;
  // Bit i: whether the i-th of the list is_indexed.
  unsigned indexed(List list) const;
  // Bit i: whether each thread moves the i-th of the list on its own, however it lies in memory.
  unsigned unstaged(List list) const;

  // Bit i: whether the i-th result is of the first element of each block.
  unsigned of_blocks() const;
  bool takes_maxima() const { return takes_maxima_; }   // of blocks of columns
  int square_maxima() const { return square_maxima_; }  // of them, over as many rows

  // The order of results in the text's `out`, as indices into Epilogue::stores. Of a product:
  // results, row reductions, column reductions.
  const std::vector<int>& result_order() const { return result_order_; }
  // Indices into Epilogue::loads in the order of TailParams::loads: all but parameters.
  std::vector<int> in_memory() const;

  // The constants that kernels take at run time, behind the parameters: as many as fit beside
  // those. So graphs that differ in an alpha or a limit share a kernel.
  const std::vector<double>& constants() const { return constants_; }
  int num_parameters() const {
    return size(List::parameters) + static_cast<int>(constants_.size());
  }
  // Writes these: run-time scalars, of `scalars` by ValueId, then the constants.
  void set_parameters(const std::vector<double>& scalars, float* out) const;

 private:
  void add_loads(const plan::Epilogue& epilogue, bool transposed);
  void add_stores(const plan::Epilogue& epilogue, bool transposed);
  void place_in_gemm(Place& place) const;
  void place_in_tail();

  std::vector<Place> loads_, stores_;
  std::vector<int> result_order_;
  std::vector<double> constants_;
  std::array<int, kNumLists> sizes_{};
  bool takes_maxima_ = false;
  int square_maxima_ = 0;
};

// The entry of a parameter block at an offset of a Place.
template <class Entry>
Entry& entry_at(abi::GemmParams& block, std::size_t offset) {
  return *reinterpret_cast<Entry*>(reinterpret_cast<char*>(&block) + offset);
}

}  // namespace epifuse::codegen
