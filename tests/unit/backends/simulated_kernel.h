// Plain float32 implementations of a fused kernel, each right in its own way, and with single
// faults put in: what the reference must accept and what it must reject.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "backends/reference/evaluate.h"
#include "ir/text.h"
#include "tests/common/host_tensor.h"

namespace epifuse::testing {

// A dot product of float32 operands, in some order of its own.
using Dot = std::function<float(const float* a, const float* b, std::int64_t count)>;

inline float sequential_dot(const float* a, const float* b, std::int64_t count) {
  float sum = 0;
  for (std::int64_t k = 0; k < count; ++k) sum += a[k] * b[k];
  return sum;
}

inline float reversed_dot(const float* a, const float* b, std::int64_t count) {
  float sum = 0;
  for (std::int64_t k = count; k-- > 0;) sum = std::fma(a[k], b[k], sum);
  return sum;
}

// Blocks of 64 summed on their own, as with panels along K.
inline float blocked_dot(const float* a, const float* b, std::int64_t count) {
  constexpr std::int64_t kBlock = 64;
  float sum = 0;
  for (std::int64_t k = 0; k < count; k += kBlock) {
    sum += sequential_dot(a + k, b + k, std::min(kBlock, count - k));
  }
  return sum;
}

// Sixteen interleaved sums, as with vector lanes.
inline float laned_dot(const float* a, const float* b, std::int64_t count) {
  constexpr std::size_t kLanes = 16;
  float lanes[kLanes] = {};
  for (std::int64_t k = 0; k < count; ++k) {
    lanes[static_cast<std::size_t>(k) % kLanes] += a[k] * b[k];
  }
  float sum = 0;
  for (float lane : lanes) sum += lane;
  return sum;
}

// `x` cut off towards zero to `bits` significant bits counted from exponent `exponent`.
inline double truncate(double x, int exponent, int bits) {
  const double quantum = std::ldexp(1.0, exponent - bits + 1);
  return std::trunc(x / quantum) * quantum;
}

// As a tensor core adds: 16 exact products and the accumulator are aligned to the largest of them,
// cut off at 25 bits, added, and the sum cut off at 24.
inline float tensor_core_dot(const float* a, const float* b, std::int64_t count) {
  constexpr std::int64_t kGroup = 16;
  double sum = 0;
  for (std::int64_t k0 = 0; k0 < count; k0 += kGroup) {
    const std::int64_t k1 = std::min(k0 + kGroup, count);
    double largest = std::abs(sum);
    for (std::int64_t k = k0; k < k1; ++k) {
      largest = std::max(largest, std::abs(static_cast<double>(a[k]) * b[k]));
    }
    if (largest == 0) continue;
    const int exponent = std::ilogb(largest);
    double total = truncate(sum, exponent, 25);
    for (std::int64_t k = k0; k < k1; ++k) {
      total += truncate(static_cast<double>(a[k]) * b[k], exponent, 25);
    }
    sum = total == 0 ? 0 : truncate(total, std::ilogb(total), 24);
  }
  return static_cast<float>(sum);
}

inline float round_bf16(float x) { return static_cast<float>(round_to(x, DType::bf16)); }

// x [M, K], w [N, K] and the operands of an epilogue: N(0, 1), w divided by sqrt(K).
struct Problem {
  Problem(std::int64_t m_, std::int64_t n_, std::int64_t k_, std::uint64_t seed,
          double weight_scale = 1)
      : m(m_),
        n(n_),
        k(k_),
        x(DType::bf16, {m, k}),
        w(DType::bf16, {n, k}),
        bias(DType::bf16, {n}),
        residual(DType::bf16, {m, n}) {
    std::mt19937_64 random(seed);
    x.fill_normal(random);
    w.fill_normal(random, weight_scale / std::sqrt(static_cast<double>(k)));
    bias.fill_normal(random);
    residual.fill_normal(random);
    for (double value : x.values()) x_values.push_back(static_cast<float>(value));
    for (double value : w.values()) w_values.push_back(static_cast<float>(value));
  }

  // The accumulators of all elements.
  std::vector<float> product(const Dot& dot) const {
    std::vector<float> result;
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        result.push_back(dot(x_values.data() + i * k, w_values.data() + j * k, k));
      }
    }
    return result;
  }

  // What a kernel would store: `epilogue(acc, row, col)` of each accumulator.
  using Epilogue = std::function<float(float acc, std::int64_t row, std::int64_t col)>;
  HostTensor store(const std::vector<float>& accumulators, DType dtype,
                   const Epilogue& epilogue) const {
    HostTensor y(dtype, {m, n});
    for (std::int64_t i = 0; i < m * n; ++i) {
      y.set(i, epilogue(accumulators[static_cast<std::size_t>(i)], i / n, i % n));
    }
    return y;
  }

  float bias_at(std::int64_t col) const { return static_cast<float>(bias.get(col)); }
  float residual_at(std::int64_t row, std::int64_t col) const {
    return static_cast<float>(residual.get(row * n + col));
  }

  // Verdict on `y` as output "y" of a graph over x, w and those of b and r that it names.
  reference::Verdict verify(const std::string& text, HostTensor& y,
                            const reference::Options& options = {}) {
    const ir::Graph graph = ir::parse(text);
    std::vector<Binding> tensors{x.bind("x"), w.bind("w"), y.bind("y")};
    for (const ir::Node& node : graph.nodes) {
      if (node.name == "b") tensors.push_back(bias.bind("b"));
      if (node.name == "r") tensors.push_back(residual.bind("r"));
    }
    return reference::verify(graph, tensors, options).at(0);
  }

  std::int64_t m, n, k;
  HostTensor x, w, bias, residual;
  std::vector<float> x_values, w_values;
};

}  // namespace epifuse::testing
