// What the C interface refuses: null pointers, tensors of odd forms; and how it says so.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "epifuse/c.h"
#include "tests/unit/capi/c_tensors.h"

namespace {

using namespace epifuse::tests;

constexpr std::int64_t kHuge = std::int64_t{1} << 32;

// y = x + 1 over [M, N], its tensors, and what a run on them says.
struct Call {
  const EpifuseKernel* kernel =
      kernel_of("graph plain(x: f32[M, N]) {\n  y = add x, 1\n  return y\n}\n");
  Tensor x{{3, 4}}, y{{3, 4}};
  EpifuseTensor in = x.view(), out = y.view();

  std::string error() const {
    const bool ok = epifuse_run(kernel, &in, &out, nullptr) == EPIFUSE_OK;
    return ok ? "" : epifuse_last_error();
  }
};

TEST(CRefusals, NullKernels) {
  for (const auto ask : {epifuse_num_inputs, epifuse_num_outputs, epifuse_is_cuda}) {
    EXPECT_EQ(ask(nullptr), -1);
    EXPECT_STREQ(epifuse_last_error(), "expected a kernel, got a null pointer");
  }
  Call call;
  EXPECT_EQ(epifuse_run(nullptr, &call.in, &call.out, nullptr), EPIFUSE_BAD_INPUT);
  EXPECT_EQ(epifuse_prepare(nullptr, &call.in), EPIFUSE_BAD_INPUT);
}

TEST(CRefusals, NullPlacesOfAnOutput) {
  Call call;
  EpifuseDType dtype{};
  std::int32_t rank = 0;
  std::int64_t sizes[EPIFUSE_MAX_RANK];
  EXPECT_EQ(epifuse_output(call.kernel, &call.in, 0, nullptr, &rank, sizes), EPIFUSE_BAD_INPUT);
  EXPECT_STREQ(epifuse_last_error(), "expected a place for the dtype, got a null pointer");
  EXPECT_EQ(epifuse_output(call.kernel, &call.in, 0, &dtype, nullptr, sizes), EPIFUSE_BAD_INPUT);
  EXPECT_EQ(epifuse_output(call.kernel, &call.in, 0, &dtype, &rank, nullptr), EPIFUSE_BAD_INPUT);
  EXPECT_EQ(epifuse_output(call.kernel, &call.in, 7, &dtype, &rank, sizes), EPIFUSE_BAD_INPUT);
  EXPECT_EQ(epifuse_output(call.kernel, &call.in, -1, &dtype, &rank, sizes), EPIFUSE_BAD_INPUT);
  call.in.strides = nullptr;  // are not read
  EXPECT_EQ(epifuse_output(call.kernel, &call.in, 0, &dtype, &rank, sizes), EPIFUSE_OK);
}

TEST(CRefusals, TensorsWithoutSizesStridesOrData) {
  Call call;
  call.in.sizes = nullptr;
  EXPECT_EQ(call.error(), "input 'x' is declared f32[M, N]: got a null pointer to its sizes");
  call.in = call.x.view();
  call.out.strides = nullptr;
  EXPECT_EQ(call.error(), "output 'y' is declared f32[M, N]: got a null pointer to its strides");
  call.out = call.y.view();
  call.out.data = nullptr;
  EXPECT_EQ(call.error(), "output 'y' is declared f32[M, N]: got a null pointer");
  EpifuseTensor form = call.x.view();
  form.strides = nullptr;
  EXPECT_EQ(epifuse_prepare(call.kernel, &form), EPIFUSE_BAD_INPUT);
}

TEST(CRefusals, OtherDTypes) {
  Call call;
  call.in.dtype = EPIFUSE_I8;
  EXPECT_EQ(call.error(), "input 'x' is declared f32[M, N]: got i8 elements");
  for (const std::int32_t dtype : {-1, 9}) {
    call.in.dtype = dtype;
    EXPECT_EQ(call.error(), "input 'x' is declared f32[M, N]: got dtype " + std::to_string(dtype) +
                                ", which is none");
  }
}

TEST(CRefusals, AddressesBetweenElements) {
  Call call;
  EXPECT_EQ(call.error(), "");
  call.out.data = static_cast<char*>(call.out.data) + 2;
  EXPECT_EQ(call.error(),
            "output 'y' is declared f32[M, N]: got an address that is no multiple of an element's "
            "4 bytes");
}

TEST(CRefusals, Ranks) {
  Call call;
  for (const std::int32_t rank : {-1, 0, 1, 3, 7, std::numeric_limits<std::int32_t>::max(),
                                  std::numeric_limits<std::int32_t>::min()}) {
    call.in.rank = rank;
    EXPECT_EQ(call.error(),
              "input 'x' is declared f32[M, N]: got a tensor of " + std::to_string(rank) + " dims");
    EXPECT_EQ(epifuse_prepare(call.kernel, &call.in), EPIFUSE_BAD_INPUT);
  }
}

// 2^32 x 2^32 elements are 0 of 64 bits: nothing to write, and null would be right.
TEST(CRefusals, SizesAndStridesThatWrap) {
  Call call;
  const Sizes huge{kHuge, kHuge}, none{0, 0}, far{std::numeric_limits<std::int64_t>::max(), 1};
  call.in.sizes = call.out.sizes = huge.data();
  call.in.strides = none.data();
  call.out.data = nullptr;
  EXPECT_EQ(call.error(),
            "input 'x' is declared f32[M, N]: got [4294967296, 4294967296] with strides [0, 0], "
            "expected at most 2^40 elements, and as many from the first to the last");
  EXPECT_EQ(epifuse_prepare(call.kernel, &call.in), EPIFUSE_BAD_INPUT);
  call.in = call.x.view();
  call.out = call.y.view();
  call.in.strides = far.data();
  EXPECT_NE(call.error(), "");
  Sizes numbers{
      reinterpret_cast<std::intptr_t>(call.in.data), kHuge, kHuge, 0, 0, 0, kHuge, kHuge, kHuge, 1};
  EXPECT_EQ(epifuse_run_numbers(call.kernel, numbers.data(), numbers.size(), nullptr),
            EPIFUSE_BAD_INPUT);
}

TEST(CRefusals, OutputsThatWouldWrap) {
  const EpifuseKernel* kernel =
      kernel_of("graph outer(x: f32[M, 1], w: f32[1, N]) {\n  y = matmul x, w\n  return y\n}\n");
  float x = 0;
  const Sizes column{kHuge, 1}, row{1, kHuge}, zero{0, 0};
  const EpifuseTensor inputs[] = {{&x, EPIFUSE_F32, 2, column.data(), zero.data()},
                                  {&x, EPIFUSE_F32, 2, row.data(), zero.data()}};
  EpifuseDType dtype{};
  std::int32_t rank = 0;
  std::int64_t sizes[EPIFUSE_MAX_RANK];
  EXPECT_EQ(epifuse_output(kernel, inputs, 0, &dtype, &rank, sizes), EPIFUSE_BAD_INPUT);
  EXPECT_STREQ(epifuse_last_error(),
               "output 'y' is declared f32[M, N]: [4294967296, 4294967296] would be more than 2^40 "
               "elements");
  EXPECT_EQ(epifuse_prepare(kernel, inputs), EPIFUSE_BAD_INPUT);
}

TEST(CRefusals, OutputsOverOtherTensors) {
  Call call;
  call.out.data = call.x.memory.data() + 1;
  EXPECT_NE(call.error().find("output 'y' shares memory with input 'x'"), std::string::npos);
  call.out.data = call.in.data;  // in place
  const float before = call.x.memory[5];
  EXPECT_EQ(call.error(), "");
  EXPECT_EQ(call.x.memory[5], before + 1);
  const Sizes folded{2, 1};
  call.out = call.y.view();
  call.out.strides = folded.data();
  EXPECT_EQ(call.error(),
            "output 'y' is declared f32[M, N]: got strides [2, 1], whose elements overlap");
}

TEST(CRefusals, NegativeStridesAreStrides) {
  Call call;
  const Sizes backwards{4, -1};
  call.in.data = call.x.memory.data() + 3;
  call.in.strides = backwards.data();
  ASSERT_EQ(call.error(), "");
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(call.y.memory[i], call.x.memory[i / 4 * 4 + 3 - i % 4] + 1);
  }
}

// Rows are padded, so that the reshape is no view of them.
TEST(CRefusals, AReshapeThatNeedsACopyGetsOne) {
  const EpifuseKernel* kernel = kernel_of(
      "graph shaped(x: f32[M, 4]) {\n  r = reshape x [4*M]\n  y = add r, 1\n  return y\n}\n");
  Tensor dense_rows({3, 4}), padded({3, 4}, {5, 1}), y({12});
  const EpifuseTensor out = y.view();
  for (Tensor* x : {&dense_rows, &padded, &padded}) {
    const EpifuseTensor in = x->view();
    ASSERT_EQ(epifuse_prepare(kernel, &in), EPIFUSE_OK) << epifuse_last_error();
    ASSERT_EQ(epifuse_run(kernel, &in, &out, nullptr), EPIFUSE_OK) << epifuse_last_error();
    for (std::int64_t i = 0; i < 12; ++i) {
      EXPECT_EQ(y.memory[static_cast<std::size_t>(i)], static_cast<float>(x->at(i / 4, i % 4)) + 1);
    }
  }
}

// Whether text is UTF-8 that ends where it says, without bytes of control but newlines.
bool is_ascii(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0 && (c >= ' ' || c == '\n'); });
}

TEST(CRefusals, ErrorsAreUtf8OfBoundedLength) {
  const std::string text = ffn("bytes");
  const auto error = [&](const std::string& options) {
    const EpifuseKernel* kernel = nullptr;
    EXPECT_EQ(epifuse_kernel(text.data(), text.size(), options.data(), options.size(), &kernel),
              EPIFUSE_BAD_INPUT);
    return std::string(epifuse_last_error());
  };
  EXPECT_EQ(error("\xff\xfe"), "options: expected a JSON object, got \\xff\\xfe");
  EXPECT_TRUE(is_ascii(error(R"({"target": "a)" + std::string("\xc3\x28") + R"("})")));
  const std::string cut = error(R"({"target": ")" + std::string(100'000, 'x') + R"("})");
  EXPECT_EQ(cut.size(), std::size_t{EPIFUSE_MAX_ERROR});
  EXPECT_EQ(cut.substr(cut.size() - 4), "x...");
}

}  // namespace
