// What the C interface answers in JSON.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "epifuse/c.h"
#include "tests/unit/capi/c_tensors.h"

namespace {

const char* const kText =
    "graph g(x: f32[M, K], w: f32[K, N], b: f32[M, N]) {\n  h = matmul x, w\n  t = add h, b\n"
    "  y = gelu_erf t\n  return y\n}\n";

using Ask = EpifuseStatus (*)(const char*, const char*, char**);

nlohmann::json answer(Ask ask, const std::string& text, const char* options) {
  char* json = nullptr;
  EXPECT_EQ(ask(text.c_str(), options, &json), EPIFUSE_OK) << epifuse_last_error();
  auto parsed = nlohmann::json::parse(json);
  epifuse_free(json);
  return parsed;
}

TEST(CAnswers, DescribesGraphs) {
  const Ask describe = [](const char* graph, const char*, char** json) {
    return epifuse_describe(graph, json);
  };
  const nlohmann::json expected = nlohmann::json::parse(
      R"({"name": "d",
          "inputs": [{"name": "x", "dtype": "bf16", "shape": ["M", "768"]},
                     {"name": "s", "dtype": "f32", "shape": []}],
          "outputs": [{"name": "y", "dtype": "bf16", "shape": ["768*M"]}]})");
  const std::string text =
      "graph d(x: bf16[M, 768], s: f32[]) {\n  t = mul x, s\n  y = reshape t [M*768]\n"
      "  return y\n}\n";
  EXPECT_EQ(answer(describe, text, nullptr), expected);
  char* json = nullptr;
  EXPECT_EQ(epifuse_describe("graph", &json), EPIFUSE_BAD_INPUT);
  EXPECT_EQ(epifuse_describe(nullptr, &json), EPIFUSE_BAD_INPUT);
}

TEST(CAnswers, NamesTheWordsThatAreReserved) {
  char* json = nullptr;
  ASSERT_EQ(epifuse_reserved_words(&json), EPIFUSE_OK) << epifuse_last_error();
  const auto words = nlohmann::json::parse(json);
  epifuse_free(json);
  EXPECT_GT(words.size(), 50);
  for (const std::string word : words) {
    const std::string text = "graph g(" + word + ": f32[M]) {\n  return " + word + "\n}\n";
    EXPECT_EQ(epifuse_describe(text.c_str(), &json), EPIFUSE_BAD_INPUT) << word;
  }
  EXPECT_EQ(epifuse_reserved_words(nullptr), EPIFUSE_BAD_INPUT);
}

TEST(CAnswers, FindsFusionsWhoseGraphsAreKernels) {
  const nlohmann::json found =
      answer(epifuse_fusions, kText,
             R"({"target": "cpu", "whole": [["h", "t"]], "after": {}, "in_memory": ["y"]})");
  ASSERT_EQ(found["kernels"].size(), 1);
  const nlohmann::json& kernel = found["kernels"][0];
  EXPECT_EQ(kernel["inputs"].size(), 3);
  EXPECT_TRUE(kernel["inputs"][0]["shape"].is_null());
  EXPECT_EQ(kernel["outputs"][0]["value"], "y");
  const std::string text = kernel["graph"];
  const EpifuseKernel* made = nullptr;
  ASSERT_EQ(epifuse_kernel(text.data(), text.size(), nullptr, 0, &made), EPIFUSE_OK);
  EXPECT_EQ(epifuse_num_inputs(made), 3);
  char* json = nullptr;
  EXPECT_EQ(epifuse_fusions(kText, R"({"whole": [["q"]]})", &json), EPIFUSE_BAD_INPUT);
}

// One layer, its weight as `torch.nn.Linear` has it: columns one behind the other.
TEST(CAnswers, KernelsArePlannedOnceForFusionsAndRuns) {
  const std::string host =
      "graph planned(x: f32[M, 48], w: f32[48, N] strides [1, s], b: f32[N]) {\n"
      "  h = matmul x, w\n  t = add h, b\n  y = silu t\n  return y\n}\n";
  const std::int64_t before = epifuse_counts().plans;
  const nlohmann::json found =
      answer(epifuse_fusions, host, R"({"target": "cpu", "in_memory": ["y"]})");
  ASSERT_EQ(found["kernels"].size(), 1);
  EXPECT_EQ(epifuse_counts().plans, before + 1);
  const EpifuseKernel* kernel = epifuse::tests::kernel_of(found["kernels"][0]["graph"]);
  const std::int64_t programs = epifuse_counts().programs;
  using epifuse::tests::Tensor;
  std::vector<Tensor> inputs{Tensor({6, 48}), Tensor({48, 20}, {1, 48}), Tensor({20})};
  epifuse::tests::run(kernel, inputs);
  EXPECT_EQ(epifuse_counts().programs, programs + 1);
  EXPECT_EQ(epifuse_counts().plans, before + 1);
  inputs[1] = Tensor({48, 20});  // a way to lie that nobody told of
  epifuse::tests::run(kernel, inputs);
  EXPECT_EQ(epifuse_counts().plans, before + 2);
}

TEST(CAnswers, CountsCallsAndWhatTheyTook) {
  const std::string text =
      "graph counted(x: f32[M, 48], w: f32[48, N], b: f32[N]) {\n"
      "  h = matmul x, w\n  t = add h, b\n  y = silu t\n  return y\n}\n";
  const EpifuseKernel* kernel = epifuse::tests::kernel_of(text);
  const auto stats = [&text] {
    char* json = nullptr;
    EXPECT_EQ(epifuse_stats(&json), EPIFUSE_OK) << epifuse_last_error();
    const auto kernels = nlohmann::json::parse(json)["kernels"];
    epifuse_free(json);
    for (const nlohmann::json& each : kernels) {
      if (each["graph"] == text) return each;
    }
    return nlohmann::json();
  };
  EXPECT_EQ(stats()["calls"], 0);
  EXPECT_EQ(stats()["compile_seconds"], 0);
  using epifuse::tests::Tensor;
  std::vector<Tensor> inputs{Tensor({6, 48}), Tensor({48, 20}), Tensor({20})};
  for (int i = 0; i < 3; ++i) epifuse::tests::run(kernel, inputs);
  const nlohmann::json after = stats();
  EXPECT_EQ(after["calls"], 3);
  EXPECT_EQ(after["name"], "matmul_bias_silu");
  EXPECT_EQ(after["programs"], 1);
  EXPECT_GT(after["compile_seconds"], 0);
  EXPECT_EQ(epifuse_stats(nullptr), EPIFUSE_BAD_INPUT);
}

TEST(CAnswers, LikelySizesAreOfSymbolsAndInBounds) {
  const auto refusal = [](const char* options) -> std::string {
    char* json = nullptr;
    EXPECT_EQ(epifuse_fusions(kText, options, &json), EPIFUSE_BAD_INPUT) << options;
    return epifuse_last_error();
  };
  EXPECT_EQ(refusal(R"({"target": "cpu", "sums_both_ways": 1})"),
            "option 'sums_both_ways': expected true or false, got 1");
  EXPECT_EQ(refusal(R"({"target": "cpu", "likely_sizes": {"M": -5}})"),
            "expected a size from 0 to 2^40 for M, got -5");
  EXPECT_EQ(refusal(R"({"target": "cpu", "likely_sizes": {"Q": 5}})"),
            "likely_sizes: expected size symbols of the graph, got 'Q'");
  EXPECT_EQ(
      refusal(R"({"target": "cpu", "likely_sizes": {"M": 18446744073709551615}})"),
      R"(option 'likely_sizes': expected integers of 64 bits, got {"M":18446744073709551615})");
  answer(epifuse_fusions, kText, R"({"target": "cpu", "likely_sizes": {"M": 0, "K": 64}})");
}

TEST(CAnswers, Explains) {
  const nlohmann::json all = answer(epifuse_explain, kText, R"({"target": "cpu"})");
  EXPECT_TRUE(all.contains("runs"));
}

}  // namespace
