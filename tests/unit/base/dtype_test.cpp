// Names and sizes of dtypes, and strides of tensor views.
#include "epifuse/dtype.h"

#include <gtest/gtest.h>

#include "epifuse/tensor.h"

namespace epifuse {
namespace {

TEST(DType, NamesAreReadBack) {
  for (DType dtype :
       {DType::f32, DType::bf16, DType::f16, DType::e4m3, DType::e5m2, DType::boolean, DType::i8}) {
    EXPECT_EQ(dtype_from_name(name(dtype)), dtype);
    EXPECT_EQ(is_float(dtype), dtype != DType::boolean && dtype != DType::i8);
    EXPECT_EQ(is_narrow(dtype), is_fp8(dtype) || dtype == DType::i8);
    EXPECT_FALSE(is_integer(dtype));  // which number rows
  }
  EXPECT_EQ(name(DType::boolean), "bool");
  EXPECT_EQ(dtype_from_name("float"), std::nullopt);
  EXPECT_EQ(dtype_from_name(""), std::nullopt);
}

TEST(DType, Sizes) {
  EXPECT_EQ(size_bytes(DType::f32), 4u);
  EXPECT_EQ(size_bytes(DType::bf16), 2u);
  EXPECT_EQ(size_bytes(DType::f16), 2u);
  EXPECT_EQ(size_bytes(DType::e4m3), 1u);
  EXPECT_EQ(size_bytes(DType::e5m2), 1u);
  EXPECT_EQ(size_bytes(DType::boolean), 1u);
  EXPECT_EQ(size_bytes(DType::i8), 1u);
}

TEST(TensorView, Strides) {
  TensorView view;
  EXPECT_EQ(view.num_elements(), 1);
  EXPECT_TRUE(view.strides_or_dense().empty());
  view.shape = {2, 3, 4};
  EXPECT_EQ(view.num_elements(), 24);
  EXPECT_EQ(view.strides_or_dense(), (std::vector<std::int64_t>{12, 4, 1}));
  view.strides = {100, 10, 2};
  EXPECT_EQ(view.strides_or_dense(), view.strides);
  view.shape = {5, 0};
  EXPECT_EQ(view.num_elements(), 0);
}

}  // namespace
}  // namespace epifuse
