// Where the operands of an epilogue are, in the lists and in the parameter block.
#include "codegen/epilogue_layout.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "epifuse/error.h"
#include "plan/epilogue.h"

namespace epifuse::codegen {
namespace {

using abi::GemmParams;
using plan::Access;
using plan::StoreKind;

plan::Load load(const std::string& name, ir::ValueId value, DType dtype, Access access) {
  return {name, value, dtype, access};
}

plan::Store store(const std::string& name, ir::ValueId value, DType dtype, StoreKind kind) {
  return {name, value, dtype, kind, 0};
}

// Loads of every kind, not in order of the lists; two results around two reductions of columns.
plan::Epilogue mixed() {
  plan::Epilogue out;
  out.num_accumulators = 1;
  out.loads = {load("r", 10, DType::bf16, Access::tile),     load("b", 11, DType::f32, Access::row),
               load("a", 12, DType::f32, Access::parameter), load("c", 13, DType::f16, Access::col),
               load("q", 14, DType::f32, Access::tile),      load("d", 15, DType::f32, Access::row),
               load("e", 16, DType::f32, Access::scalar)};
  out.computes = {{ir::Op::constant, {-1, -1, -1}, 0.5}, {ir::Op::constant, {-1, -1, -1}, 3.0}};
  out.stores = {
      store("y", 20, DType::bf16, StoreKind::tile), store("s", 21, DType::f32, StoreKind::col_sum),
      store("z", 22, DType::f32, StoreKind::tile), store("m", 23, DType::f32, StoreKind::col_max)};
  return out;
}

constexpr std::size_t maps_at(std::size_t i) {
  return offsetof(GemmParams, full) + i * sizeof(abi::FullSizeMaps);
}

TEST(EpilogueLayout, NumbersLoadsWithinTheirLists) {
  const EpilogueLayout layout(mixed());
  EXPECT_EQ(layout.of(List::rows), (std::vector{1, 5}));
  EXPECT_EQ(layout.of(List::cols), std::vector{3});
  EXPECT_EQ(layout.of(List::tiles), (std::vector{0, 4}));
  EXPECT_EQ(layout.of(List::scalars), std::vector{6});
  EXPECT_EQ(layout.of(List::parameters), std::vector{2});
  EXPECT_EQ(layout.loads()[5].index, 1);
  EXPECT_EQ(layout.loads()[5].value, 15);
  EXPECT_EQ(layout.loads()[0].bytes, 2);
  EXPECT_EQ(layout.loads()[4].bytes, 4);
}

TEST(EpilogueLayout, NumbersResultsBeforeReductions) {
  const EpilogueLayout layout(mixed());
  EXPECT_EQ(layout.of(List::results), (std::vector{0, 2}));
  EXPECT_EQ(layout.of(List::partials), (std::vector{1, 3}));
  EXPECT_EQ(layout.result_order(), (std::vector{0, 2, 1, 3}));

  plan::Epilogue rows_too = mixed();
  rows_too.stores[3].kind = StoreKind::row_max;
  EXPECT_EQ(EpilogueLayout(rows_too).of(List::partials), (std::vector{3, 1}));
  EXPECT_EQ(EpilogueLayout(rows_too, true).of(List::partials), (std::vector{1, 3}));
}

TEST(EpilogueLayout, PlacesEntriesInTheArraysOfAProduct) {
  const EpilogueLayout layout(mixed());
  const auto offset = [&](std::size_t i) { return layout.loads()[i].offset; };
  EXPECT_EQ(offset(1), offsetof(GemmParams, rows));
  EXPECT_EQ(offset(5), offsetof(GemmParams, rows) + sizeof(abi::Vector));
  EXPECT_EQ(offset(2), offsetof(GemmParams, parameters));
  EXPECT_EQ(offset(3), offsetof(GemmParams, cols));
  EXPECT_EQ(offset(4), offsetof(GemmParams, plain_tiles) + sizeof(abi::Matrix));
  EXPECT_EQ(offset(6), offsetof(GemmParams, scalars));
  EXPECT_EQ(layout.stores()[2].offset, offsetof(GemmParams, non_tma_stores) + sizeof(abi::Matrix));
  EXPECT_EQ(layout.stores()[3].offset, offsetof(GemmParams, partials) + sizeof(abi::Partials));

  GemmParams block{};
  entry_at<abi::Vector>(block, offset(5)).stride = 7;
  EXPECT_EQ(block.rows[1].stride, 7);
}

TEST(EpilogueLayout, FullSizeOperandsAreStagedAndHaveMaps) {
  const EpilogueLayout layout(mixed());
  EXPECT_EQ(layout.loads()[4].staging, Staging::chunks);
  EXPECT_EQ(layout.loads()[4].map_offset, maps_at(1) + offsetof(abi::FullSizeMaps, load));
  EXPECT_EQ(layout.stores()[0].staging, Staging::chunks);
  EXPECT_EQ(layout.stores()[0].map_offset, maps_at(0) + offsetof(abi::FullSizeMaps, store));
  EXPECT_EQ(layout.stores()[2].cut_map_offset, maps_at(1) + offsetof(abi::FullSizeMaps, cut_store));
  EXPECT_EQ(layout.loads()[1].staging, Staging::vector);
  for (const std::size_t i : {2, 3, 6}) EXPECT_EQ(layout.loads()[i].staging, Staging::none) << i;
  EXPECT_EQ(layout.stores()[1].staging, Staging::none);
}

TEST(EpilogueLayout, RowsAndColumnsExchangeRolesInATransposedResult) {
  const EpilogueLayout layout(mixed(), true);
  EXPECT_EQ(layout.of(List::rows), std::vector{3});
  EXPECT_EQ(layout.of(List::cols), (std::vector{1, 5}));
  EXPECT_EQ(layout.loads()[5].offset, offsetof(GemmParams, cols) + sizeof(abi::Vector));
  EXPECT_EQ(layout.of(List::tiles), (std::vector{0, 4}));
}

TEST(EpilogueLayout, PairsAreAsWideAsTheyAreStored) {
  plan::Epilogue epilogue = mixed();
  epilogue.stores[0].part = plan::Part::pairs;
  EXPECT_EQ(EpilogueLayout(epilogue).stores()[0].bytes, 4);
}

TEST(EpilogueLayout, RowsThatGoByAnIndexHaveIntegers) {
  plan::Epilogue epilogue = mixed();
  epilogue.loads[4].lookup = 5;
  epilogue.loads[3].lookup = 5;
  epilogue.loads[3].by_group = true;  // which is no index
  epilogue.stores[2].index = 6;
  const EpilogueLayout layout(epilogue);
  EXPECT_EQ(layout.indexed(List::tiles), 2u);
  EXPECT_EQ(layout.indexed(List::cols), 0u);
  EXPECT_EQ(layout.indexed(List::results), 2u);
  EXPECT_EQ(layout.loads()[4].integers_offset,
            offsetof(GemmParams, rows_of_tiles) + sizeof(abi::Integers));
  EXPECT_EQ(layout.stores()[2].integers_offset,
            offsetof(GemmParams, rows_of_stores) + sizeof(abi::Integers));
}

TEST(EpilogueLayout, ATailHasRowsColumnsTilesScalarsInOneArray) {
  plan::Epilogue epilogue = mixed();
  epilogue.num_accumulators = 0;
  const EpilogueLayout layout(epilogue);
  const std::vector<int> order = layout.in_memory();
  EXPECT_EQ(order, (std::vector{1, 5, 3, 0, 4, 6}));
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Place& place = layout.loads()[static_cast<std::size_t>(order[i])];
    EXPECT_EQ(place.offset, offsetof(abi::TailParams, loads) + i * sizeof(abi::Strided));
    EXPECT_EQ(place.staging, Staging::none);
  }
  EXPECT_EQ(layout.loads()[2].offset, offsetof(abi::TailParams, parameters));
  EXPECT_EQ(layout.of(List::results), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(layout.stores()[3].offset,
            offsetof(abi::TailParams, stores) + 3 * sizeof(abi::Strided));
}

TEST(EpilogueLayout, ConstantsFollowParametersAsFarAsThereIsRoom) {
  std::vector<double> scalars(30);
  scalars[12] = 2.0;
  float block[abi::kMaxScalars] = {};
  const EpilogueLayout layout(mixed());
  layout.set_parameters(scalars, block);
  EXPECT_EQ(layout.num_parameters(), 3);
  EXPECT_EQ(block[0], 2.0f);
  EXPECT_EQ(block[1], 0.5f);
  EXPECT_EQ(block[2], 3.0f);

  plan::Epilogue full = mixed();
  for (int i = 1; i + 1 < abi::kMaxScalars; ++i) {
    full.loads.push_back(load("p", 30 + i, DType::f32, Access::parameter));
  }
  EXPECT_EQ(EpilogueLayout(full).constants(), std::vector{0.5});
}

TEST(EpilogueLayout, RefusesWhatTheBlockHasNoRoomFor) {
  plan::Epilogue epilogue = mixed();
  for (int i = 0; i < 3; ++i) epilogue.loads.push_back(load("x", 40 + i, DType::f32, Access::row));
  EXPECT_THROW(EpilogueLayout{epilogue}, InternalError);
  epilogue.loads.pop_back();
  EXPECT_EQ(EpilogueLayout(epilogue).size(List::rows), abi::kMaxVectors);
}

}  // namespace
}  // namespace epifuse::codegen
