// The C interface: values against plain double arithmetic, layouts, errors, what is compiled.
#include "epifuse/c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/capi/c_tensors.h"

namespace {

using namespace epifuse::tests;

// The error of a graph or options that give no kernel.
std::string refusal(const std::string& text, std::string_view options = kOnCpu) {
  const EpifuseKernel* kernel = nullptr;
  EXPECT_EQ(epifuse_kernel(text.data(), text.size(), options.data(), options.size(), &kernel),
            EPIFUSE_BAD_INPUT);
  return epifuse_last_error();
}

// The largest error in units of what float32 sums of K products may err by.
double error_of(const std::vector<Tensor>& inputs, const Tensor& y) {
  const Tensor &x = inputs[0], &w = inputs[1], &b = inputs[2];
  EXPECT_EQ(y.sizes, (Sizes{x.sizes[0], w.sizes[1]}));
  const std::int64_t depth = x.sizes[1];
  double worst = 0;
  for (std::int64_t i = 0; i < x.sizes[0]; ++i) {
    for (std::int64_t j = 0; j < w.sizes[1]; ++j) {
      double t = b.at(i, j), magnitude = std::abs(t);
      for (std::int64_t k = 0; k < depth; ++k) {
        t += x.at(i, k) * w.at(k, j);
        magnitude += std::abs(x.at(i, k) * w.at(k, j));
      }
      const double expected = t / 2 * (1 + std::erf(t / std::sqrt(2.0)));
      const double bound = std::ldexp(magnitude * (static_cast<double>(depth) + 8), -23);
      worst = std::max(worst, std::abs(y.at(i, j) - expected) / bound);
    }
  }
  return worst;
}

// Runs `text` on these inputs, checks it, and returns the programs that were compiled for it.
std::int64_t check(const std::string& text, std::vector<Tensor> inputs) {
  const EpifuseKernel* kernel = kernel_of(text);
  const std::int64_t before = epifuse_counts().programs;
  EXPECT_LE(error_of(inputs, run(kernel, inputs)[0]), 1);
  return epifuse_counts().programs - before;
}

TEST(CApi, TheSameTextsGiveTheSameKernel) {
  const std::string text = ffn("same"), copy = text + "", other = ffn("another");
  EXPECT_EQ(kernel_of(text), kernel_of(copy));
  EXPECT_NE(kernel_of(text), kernel_of(other));
  EXPECT_NE(kernel_of(text), kernel_of(text, R"({"target": "cpu", "numerics": "exact"})"));
  EXPECT_EQ(epifuse_num_inputs(kernel_of(text)), 3);
  EXPECT_EQ(epifuse_num_outputs(kernel_of(text)), 1);
  EXPECT_EQ(epifuse_is_cuda(kernel_of(text)), 0);
  EXPECT_STREQ(epifuse_version(), "0.1.0");
}

TEST(CApi, OneProgramServesEveryM) {
  const std::string text = ffn("every_m");
  EXPECT_EQ(check(text, {Tensor({5, 33}), Tensor({33, 20}), Tensor({5, 20})}), 1);
  for (const std::int64_t m : {1, 2, 64, 0}) {
    EXPECT_EQ(check(text, {Tensor({m, 33}), Tensor({33, 20}), Tensor({m, 20})}), 0) << m;
  }
  // Padded rows are no other layout.
  EXPECT_EQ(check(text, {Tensor({7, 33}, {40, 1}), Tensor({33, 20}, {32, 1}), Tensor({7, 20})}), 0);
}

TEST(CApi, StridesGiveAProgramForEachLayout) {
  const std::string text = ffn("layouts");
  const auto x = [](std::int64_t m) { return Tensor({m, 33}); };
  EXPECT_EQ(check(text, {x(5), Tensor({33, 20}, {1, 33}), Tensor({5, 20}, {0, 1})}), 1);
  EXPECT_EQ(check(text, {x(6), Tensor({33, 20}, {1, 40}), Tensor({6, 20}, {0, 1})}), 0);
  EXPECT_EQ(check(text, {x(5), Tensor({33, 20}, {1, 33}), Tensor({5, 20}, {1, 0})}), 1);
  EXPECT_EQ(check(text, {x(5), Tensor({33, 20}, {1, 33}), Tensor({5, 20}, {0, 0})}), 1);
  EXPECT_EQ(check(text, {x(5), Tensor({33, 20}, {1, 33}), Tensor({5, 20}, {2, 12})}), 1);
  EXPECT_EQ(check(text, {Tensor({5, 33}, {1, 8}), Tensor({33, 20}), Tensor({5, 20})}), 1);
  EXPECT_EQ(check(text, {Tensor({1, 33}, {1, 8}), Tensor({33, 20}), Tensor({1, 20})}), 0);
  EXPECT_EQ(check(text, {Tensor({5, 33}, {99, 3}), Tensor({33, 20}), Tensor({5, 20})}), 1);
}

TEST(CApi, PreparedAheadNothingIsLeftToCompile) {
  const std::string text = ffn("ahead");
  std::vector<Tensor> inputs{Tensor({5, 33}), Tensor({33, 20}, {1, 33}), Tensor({5, 20})};
  std::vector<EpifuseTensor> forms = views(inputs);
  for (EpifuseTensor& form : forms) form.data = nullptr;
  const std::int64_t before = epifuse_counts().programs;
  EXPECT_EQ(epifuse_prepare(kernel_of(text), forms.data()), EPIFUSE_OK) << epifuse_last_error();
  EXPECT_EQ(epifuse_counts().programs, before + 1);
  EXPECT_EQ(check(text, inputs), 0);
  char* json = nullptr;
  ASSERT_EQ(epifuse_choice(kernel_of(text), forms.data(), &json), EPIFUSE_OK);
  EXPECT_EQ(std::string(json), R"({"how":[],"grounds":[],"left":null})") << "no choice on CPUs";
  epifuse_free(json);
  EXPECT_EQ(epifuse_choice(kernel_of(text), forms.data(), nullptr), EPIFUSE_BAD_INPUT);
  forms[1].rank = 1;
  EXPECT_EQ(epifuse_prepare(kernel_of(text), forms.data()), EPIFUSE_BAD_INPUT);
}

TEST(CApi, RepeatedCallsReadTheMemoryAnew) {
  const EpifuseKernel* kernel = kernel_of(ffn("again"));
  std::vector<Tensor> inputs{Tensor({5, 33}), Tensor({33, 20}), Tensor({5, 20})};
  std::vector<Tensor> outputs{Tensor({5, 20})};
  const auto check_again = [&] {
    ASSERT_EQ(epifuse_run(kernel, views(inputs).data(), views(outputs).data(), nullptr), EPIFUSE_OK)
        << epifuse_last_error();
    EXPECT_LE(error_of(inputs, outputs[0]), 1);
  };
  for (int i = 0; i < 3; ++i) {
    inputs[0].memory[7] += 1;
    check_again();
  }
  // The same addresses under other sizes are another call; more calls than are remembered.
  for (std::int64_t m = 1; m <= 5; ++m) {
    inputs[0].sizes[0] = inputs[2].sizes[0] = outputs[0].sizes[0] = m;
    check_again();
  }
  std::vector<std::vector<Tensor>> others;
  for (int i = 0; i < 70; ++i) {
    others.push_back({Tensor({2, 33}), Tensor({33, 20}), Tensor({2, 20})});
    EXPECT_LE(error_of(others.back(), run(kernel, others.back())[0]), 1);
  }
  check_again();
}

TEST(CApi, StridesOfSizeOneSayNothing) {
  const std::string text = ffn("ones");
  EXPECT_EQ(check(text, {Tensor({1, 33}), Tensor({33, 1}), Tensor({1, 1})}), 1);
  for (const std::int64_t odd : {0, 1, 7, -3}) {
    EXPECT_EQ(check(text, {Tensor({1, 33}, {odd, 1}), Tensor({33, 1}, {1, odd}),
                           Tensor({1, 1}, {odd, odd})}),
              0)
        << odd;
  }
}

TEST(CApi, EmptyTensors) {
  const std::string text = ffn("empty");
  EXPECT_EQ(check(text, {Tensor({0, 33}), Tensor({33, 20}), Tensor({0, 20})}), 0);
  EXPECT_EQ(check(text, {Tensor({5, 33}), Tensor({33, 0}), Tensor({5, 0})}), 0);
  EXPECT_EQ(check(text, {Tensor({5, 0}), Tensor({0, 20}), Tensor({5, 20})}), 1);

  // No memory at all, and strides as PyTorch gives them.
  std::vector<Tensor> inputs{Tensor({5, 0}, {1, 1}), Tensor({0, 20}, {1, 1}), Tensor({5, 20})};
  std::vector<EpifuseTensor> in = views(inputs);
  in[0].data = in[1].data = nullptr;
  std::vector<Tensor> outputs{Tensor({5, 20})};
  ASSERT_EQ(epifuse_run(kernel_of(text), in.data(), views(outputs).data(), nullptr), EPIFUSE_OK)
      << epifuse_last_error();
  EXPECT_LE(error_of(inputs, outputs[0]), 1);
}

TEST(CApi, AnEmptyResultBesideOneThatIsNot) {
  const EpifuseKernel* kernel = kernel_of(R"(graph g(x: f32[M, N]) {
  y = relu x
  top = row_max x
  return y, top
}
)");
  std::vector<Tensor> inputs{Tensor({3, 0})};
  const std::vector<Tensor> outputs = run(kernel, inputs);
  EXPECT_EQ(outputs[1].sizes, (Sizes{3, 1}));
  EXPECT_EQ(outputs[1].at(2, 0), -std::numeric_limits<double>::infinity());
}

TEST(CApi, ZeroDimsAndSizesThatAreComputed) {
  const EpifuseKernel* kernel = kernel_of(R"(graph g(x: f32[A, B, 4], scale: f32[]) {
  s = mul x, scale
  y = reshape s [A*B, 4]
  z = neg scale
  return y, z
}
)");
  std::vector<Tensor> inputs{Tensor({2, 3, 4}), Tensor(Sizes{})};
  inputs[1].memory[0] = 2;
  const std::vector<Tensor> outputs = run(kernel, inputs);
  EXPECT_EQ(outputs[0].sizes, (Sizes{6, 4}));
  for (std::size_t i = 0; i < 24; ++i) {
    EXPECT_EQ(outputs[0].memory[i], inputs[0].memory[i] * 2);
  }
  EXPECT_EQ(outputs[1].sizes, Sizes{});
  EXPECT_EQ(outputs[1].memory[0], -2);
}

TEST(CApi, FreshSymbolsAreNoNamesOfTheGraph) {
  const EpifuseKernel* kernel = kernel_of(R"(graph g(x: f32[stride0_0, stride0_1]) {
  y = neg x
  return y
}
)");
  std::vector<Tensor> inputs{Tensor({3, 5}, {20, 4})};
  const std::vector<Tensor> outputs = run(kernel, inputs);
  EXPECT_EQ(outputs[0].at(2, 4), -inputs[0].at(2, 4));
}

TEST(CApi, ErrorsSayWhatWasExpectedAndWhatCame) {
  const EpifuseKernel* kernel = kernel_of(ffn("errors"));
  const auto error = [&](const Sizes& w, std::int32_t dtype) {
    std::vector<Tensor> inputs{Tensor({5, 33}), Tensor(w), Tensor({5, 20})};
    std::vector<EpifuseTensor> in = views(inputs);
    in[1].dtype = dtype;
    std::vector<Tensor> outputs{Tensor({5, 20})};
    EXPECT_EQ(epifuse_run(kernel, in.data(), views(outputs).data(), nullptr), EPIFUSE_BAD_INPUT);
    return std::string(epifuse_last_error());
  };
  EXPECT_EQ(error({34, 20}, EPIFUSE_F32),
            "input 'w' is declared f32[K, N]: got [34, 20], where K is 33");
  EXPECT_EQ(error({33, 20}, EPIFUSE_BF16), "input 'w' is declared f32[K, N]: got bf16 elements");
  EXPECT_EQ(error({33, 20}, 9), "input 'w' is declared f32[K, N]: got dtype 9, which is none");
  EXPECT_EQ(error({33}, EPIFUSE_F32), "input 'w' is declared f32[K, N]: got a tensor of 1 dims");
  std::int64_t sizes[EPIFUSE_MAX_RANK];
  std::int32_t rank = 0;
  EpifuseDType dtype{};
  EXPECT_EQ(epifuse_output(kernel, nullptr, 0, &dtype, &rank, sizes), EPIFUSE_BAD_INPUT);
  EXPECT_STREQ(epifuse_last_error(), "expected inputs, got a null pointer");
}

TEST(CApi, ResultsOfNegativeSizesAreErrors) {
  const EpifuseKernel* kernel =
      kernel_of("graph g(x: f32[N]) {\n  y = slice x [8:]\n  z = neg y\n  return z\n}\n");
  Tensor x({4});
  const EpifuseTensor view = x.view();
  std::int64_t sizes[EPIFUSE_MAX_RANK];
  std::int32_t rank = 0;
  EpifuseDType dtype{};
  EXPECT_EQ(epifuse_output(kernel, &view, 0, &dtype, &rank, sizes), EPIFUSE_BAD_INPUT);
  EXPECT_STREQ(epifuse_last_error(), "output 'z' is declared f32[N-8]: N-8 would be -4");
}

TEST(CApi, RefusesGraphsAndOptionsThatItCannotTake) {
  const std::string text = ffn("refused");
  EXPECT_EQ(refusal(text, R"({"targt": "cpu"})"),
            "options: expected keys among target, numerics, tf32, tune, family, got 'targt'");
  EXPECT_EQ(refusal(text, R"({"whole": []})"),
            "options: expected keys among target, numerics, tf32, tune, family, got 'whole'");
  EXPECT_EQ(refusal(text, R"({"numerics": 3})"),
            R"(option 'numerics': expected "fast", "exact" or "approx", got 3)");
  EXPECT_EQ(refusal(text, R"({"tf32": "yes"})"),
            R"(option 'tf32': expected true or false, got "yes")");
  EXPECT_EQ(refusal(text, R"({"tune": "always"})"),
            R"(option 'tune': expected off, compile, first-use or full, got "always")");
  EXPECT_EQ(refusal(text, R"({"tune": true})"),
            "option 'tune': expected off, compile, first-use or full, got true");
  EXPECT_EQ(refusal(text, R"({"family": "sm99", "target": "cpu"})"),
            "family: expected one of sm90_dense, sm80, got 'sm99'");
  EXPECT_EQ(refusal(text, "cpu"), "options: expected a JSON object, got cpu");
  EXPECT_NE(refusal(text, R"({"target": "tpu"})").find("got 'tpu'"), std::string::npos);
  EXPECT_EQ(refusal("graph").substr(0, 16), "line 1, column 6");
  EXPECT_NE(refusal("graph g(x: f32[N], a: scalar) {\n  y = mul x, a\n  return y\n}\n")
                .find("got the scalar 'a'"),
            std::string::npos);
  EXPECT_NE(refusal("graph g(x: f32[M, N] strides [1, M]) {\n  y = neg x\n  return y\n}\n")
                .find("expected inputs without strides"),
            std::string::npos);
  EXPECT_NE(refusal("graph g(x: f32[2*M]) {\n  y = neg x\n  return y\n}\n")
                .find("'M' cannot be read off any tensor"),
            std::string::npos);
}

TEST(CApi, AnyNumberOfThreadsMayCall) {
  const std::string text = ffn("threads");
  const std::int64_t before = epifuse_counts().programs;
  std::vector<std::thread> threads;
  std::vector<double> errors(8);
  for (std::size_t t = 0; t < errors.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t m = 1; m < 20; ++m) {
        const bool turned = (m + static_cast<std::int64_t>(t)) % 2 == 0;
        std::vector<Tensor> inputs{Tensor({m, 33}),
                                   Tensor({33, 20}, turned ? Sizes{1, 33} : Sizes{20, 1}),
                                   Tensor({m, 20})};
        errors[t] = std::max(errors[t], error_of(inputs, run(kernel_of(text), inputs)[0]));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(*std::max_element(errors.begin(), errors.end()), 1);
  EXPECT_EQ(epifuse_counts().programs - before, 2);
  EXPECT_EQ(epifuse_counts().binaries, 0);
}

}  // namespace
