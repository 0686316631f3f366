// The C interface on tensors that come as numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "epifuse/c.h"
#include "tests/unit/capi/c_tensors.h"

namespace {

using namespace epifuse::tests;

// What epifuse_run_numbers takes for these tensors.
Sizes numbers_of(std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
  Sizes numbers;
  for (std::vector<Tensor>* tensors : {&inputs, &outputs}) {
    for (Tensor& tensor : *tensors) {
      numbers.push_back(reinterpret_cast<std::intptr_t>(tensor.view().data));
      numbers.insert(numbers.end(), tensor.sizes.begin(), tensor.sizes.end());
      numbers.insert(numbers.end(), tensor.strides.begin(), tensor.strides.end());
    }
  }
  return numbers;
}

TEST(CApi, TensorsAsNumbersGiveTheSameBits) {
  const EpifuseKernel* kernel = kernel_of(ffn("numbers"));
  std::vector<Tensor> inputs{Tensor({5, 33}, {40, 1}), Tensor({33, 20}, {1, 33}), Tensor({5, 20})};
  const std::vector<Tensor> expected = run(kernel, inputs);
  std::vector<Tensor> outputs{Tensor({5, 20})};
  const Sizes numbers = numbers_of(inputs, outputs);
  for (int repeat = 0; repeat < 2; ++repeat) {  // the second is a call that is remembered
    outputs[0].memory.assign(outputs[0].memory.size(), -1);
    ASSERT_EQ(epifuse_run_numbers(kernel, numbers.data(), numbers.size(), nullptr), EPIFUSE_OK)
        << epifuse_last_error();
    EXPECT_EQ(outputs[0].memory, expected[0].memory);
  }
}

TEST(CApi, NumbersThatDoNotFitAreErrors) {
  const EpifuseKernel* kernel = kernel_of(ffn("wrong_numbers"));
  std::vector<Tensor> inputs{Tensor({5, 33}), Tensor({33, 20}), Tensor({5, 20})};
  std::vector<Tensor> outputs{Tensor({5, 21})};
  const Sizes numbers = numbers_of(inputs, outputs);
  EXPECT_EQ(epifuse_run_numbers(kernel, numbers.data(), numbers.size(), nullptr),
            EPIFUSE_BAD_INPUT);
  EXPECT_STREQ(epifuse_last_error(),
               "output 'y' is declared f32[M, N]: got [5, 21], where N is 20");
  EXPECT_EQ(epifuse_run_numbers(kernel, numbers.data(), numbers.size() - 1, nullptr),
            EPIFUSE_BAD_INPUT);
  EXPECT_STREQ(epifuse_last_error(),
               "graph 'wrong_numbers': expected 20 numbers for a call, got 19");
  EXPECT_EQ(epifuse_run_numbers(kernel, nullptr, numbers.size(), nullptr), EPIFUSE_BAD_INPUT);
}

TEST(CApi, TensorsThatMoveBetweenCallsGiveTheirOwnBits) {
  const EpifuseKernel* kernel = kernel_of(ffn("moving_numbers"));
  std::vector<Tensor> inputs{Tensor({5, 33}), Tensor({33, 20}), Tensor({5, 20})};
  const std::vector<Tensor> expected = run(kernel, inputs);
  std::vector<std::vector<Tensor>> kept;  // so that no two calls share an address
  for (int call = 0; call < 20; ++call) {
    kept.push_back(inputs);
    std::vector<Tensor> outputs{Tensor({5, 20})};
    const Sizes numbers = numbers_of(kept.back(), outputs);
    ASSERT_EQ(epifuse_run_numbers(kernel, numbers.data(), numbers.size(), nullptr), EPIFUSE_OK)
        << epifuse_last_error();
    ASSERT_EQ(outputs[0].memory, expected[0].memory);
    kept.push_back(std::move(outputs));
  }
}

TEST(CApi, ACallSiteTakesTensorsThatMoveAndOtherSizes) {
  const EpifuseKernel* kernel = kernel_of(ffn("call_site"));
  EpifuseCallSite* site = nullptr;
  ASSERT_EQ(epifuse_call_site(kernel, &site), EPIFUSE_OK) << epifuse_last_error();
  std::vector<std::vector<Tensor>> kept;  // so that no two calls share an address
  for (const std::int64_t rows : {5, 5, 5, 9, 5, 9, 9}) {
    std::vector<Tensor> inputs{Tensor({rows, 33}), Tensor({33, 20}), Tensor({rows, 20})};
    const std::vector<Tensor> expected = run(kernel, inputs);
    std::vector<Tensor> outputs{Tensor({rows, 20})};
    const Sizes numbers = numbers_of(inputs, outputs);
    ASSERT_EQ(epifuse_run_at(site, numbers.data(), numbers.size(), nullptr), EPIFUSE_OK)
        << epifuse_last_error();
    ASSERT_EQ(outputs[0].memory, expected[0].memory);
    EXPECT_EQ(epifuse_run_at(site, numbers.data(), numbers.size() - 1, nullptr), EPIFUSE_BAD_INPUT);
    kept.push_back(std::move(inputs));
    kept.push_back(std::move(outputs));
  }
  EXPECT_EQ(epifuse_run_at(site, nullptr, 20, nullptr), EPIFUSE_BAD_INPUT);
  EXPECT_EQ(epifuse_run_at(nullptr, nullptr, 20, nullptr), EPIFUSE_BAD_INPUT);
  EXPECT_STREQ(epifuse_last_error(), "expected a call site, got a null pointer");
  EXPECT_EQ(epifuse_call_site(nullptr, &site), EPIFUSE_BAD_INPUT);
  EXPECT_EQ(epifuse_call_site(kernel, nullptr), EPIFUSE_BAD_INPUT);
  epifuse_free_call_site(site);
  epifuse_free_call_site(nullptr);
}

TEST(CApi, MoreCallsThanAreRememberedStayRight) {
  const EpifuseKernel* kernel = kernel_of("graph many(x: f32[N]) {\n  y = neg x\n  return y\n}\n");
  std::vector<float> x(3000), y(3000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) + 1;
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (std::size_t n = 1; n <= 1500; ++n) {  // each size is a form
      const auto begin = x.size() - n;
      const auto size = static_cast<std::int64_t>(n);
      const Sizes numbers{reinterpret_cast<std::intptr_t>(&x[begin]), size, 1,
                          reinterpret_cast<std::intptr_t>(&y[begin]), size, 1};
      y[begin] = 0;
      ASSERT_EQ(epifuse_run_numbers(kernel, numbers.data(), numbers.size(), nullptr), EPIFUSE_OK);
      ASSERT_EQ(y[begin], -x[begin]);
    }
  }
}

}  // namespace
