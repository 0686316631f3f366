// Tensors for tests of the C interface.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "epifuse/c.h"

namespace epifuse::tests {

using Sizes = std::vector<std::int64_t>;
constexpr std::string_view kOnCpu = R"({"target": "cpu"})";

// y = gelu(x w + b); one text for each test, as kernels live for the process.
inline std::string ffn(const std::string& name) {
  return "graph " + name + R"((x: f32[M, K], w: f32[K, N], b: f32[M, N]) {
  h = matmul x, w
  t = add h, b
  y = gelu_erf t
  return y
}
)";
}

inline Sizes dense(const Sizes& sizes) {
  Sizes strides(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= sizes[d];
  }
  return strides;
}

// A float32 tensor with random values, in memory of its own.
struct Tensor {
  Sizes sizes, strides;
  std::vector<float> memory;

  explicit Tensor(Sizes sizes_, Sizes strides_ = {})
      : sizes(std::move(sizes_)), strides(strides_.empty() ? dense(sizes) : std::move(strides_)) {
    std::int64_t end = 1;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      end += std::max<std::int64_t>(sizes[d] - 1, 0) * strides[d];
    }
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    memory.resize(static_cast<std::size_t>(end));
    for (float& x : memory) x = normal(random);
  }
  double at(std::int64_t i, std::int64_t j) const {
    return memory[static_cast<std::size_t>(i * strides[0] + j * strides[1])];
  }
  EpifuseTensor view() {
    return {memory.data(), EPIFUSE_F32, static_cast<std::int32_t>(sizes.size()), sizes.data(),
            strides.data()};
  }
};

inline const EpifuseKernel* kernel_of(const std::string& text, std::string_view options = kOnCpu) {
  const EpifuseKernel* kernel = nullptr;
  const EpifuseStatus status =
      epifuse_kernel(text.data(), text.size(), options.data(), options.size(), &kernel);
  EXPECT_EQ(status, EPIFUSE_OK) << epifuse_last_error();
  return kernel;
}

inline std::vector<EpifuseTensor> views(std::vector<Tensor>& tensors) {
  std::vector<EpifuseTensor> views;
  for (Tensor& tensor : tensors) views.push_back(tensor.view());
  return views;
}

// The results for these inputs, dense.
inline std::vector<Tensor> run(const EpifuseKernel* kernel, std::vector<Tensor>& inputs) {
  const std::vector<EpifuseTensor> in = views(inputs);
  std::vector<Tensor> outputs;
  for (int i = 0; i < epifuse_num_outputs(kernel); ++i) {
    EpifuseDType dtype{};
    std::int32_t rank = 0;
    std::int64_t sizes[EPIFUSE_MAX_RANK];
    EXPECT_EQ(epifuse_output(kernel, in.data(), i, &dtype, &rank, sizes), EPIFUSE_OK)
        << epifuse_last_error();
    EXPECT_EQ(dtype, EPIFUSE_F32);
    outputs.emplace_back(Sizes(sizes, sizes + rank));
  }
  EXPECT_EQ(epifuse_run(kernel, in.data(), views(outputs).data(), nullptr), EPIFUSE_OK)
      << epifuse_last_error();
  return outputs;
}

}  // namespace epifuse::tests
