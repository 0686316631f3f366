// Every golden graph of the passes means the same after its pass, and its pass changes it only
// once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "evaluator.h"
#include "ir/text.h"
#include "passes/pipeline.h"

namespace epifuse {
namespace {

namespace fs = std::filesystem;

struct Golden {
  std::string name;    // "canonicalise/powers"
  std::string folder;  // of the pass
  ir::Graph graph;     // before it
};

bool skips_roundings(const std::string& folder) {
  return folder == "fold_activations" || folder == "all";
}

std::vector<Golden> read_goldens() {
  const fs::path root = fs::path(EPIFUSE_SOURCE_DIR) / "tests/text/passes";
  std::vector<Golden> goldens;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".test") continue;
    std::ifstream file(entry.path());
    std::string text(std::istreambuf_iterator<char>(file), {});
    text = text.substr(0, text.find("\n---\n") + 1);
    goldens.push_back({fs::relative(entry.path(), root).replace_extension().string(),
                       entry.path().parent_path().filename().string(), ir::parse(text)});
  }
  std::sort(goldens.begin(), goldens.end(),
            [](const Golden& a, const Golden& b) { return a.name < b.name; });
  return goldens;
}

ir::Graph run_folder(const std::string& folder, const ir::Graph& graph) {
  if (folder == "all") return passes::run_all(graph, Numerics::fast);
  if (folder == "all_exact") return passes::run_all(graph, Numerics::exact);
  for (const passes::Pass& pass : passes::all()) {
    if (pass.name == folder) return pass.run(graph);
  }
  throw std::logic_error("no pass " + folder);
}

// Those whose pass keeps every rounding.
std::vector<Golden> exact_goldens() {
  std::vector<Golden> goldens = read_goldens();
  std::erase_if(goldens, [](const Golden& golden) { return skips_roundings(golden.folder); });
  return goldens;
}

// min and max may return either of two zeros, and so may what canonicalise makes of them.
bool may_mix_zeros(const ir::Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const ir::Node& node) {
    return node.op == ir::Op::min || node.op == ir::Op::max;
  });
}

bool identical(double a, double b, bool any_zero) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && (any_zero || std::signbit(a) == std::signbit(b));
}

// Constants of a spelling may have few digits: 2e-5, and 2^-9 when rounded to bf16.
bool close(double a, double b) {
  return std::fabs(a - b) <= 4e-3 * (std::fabs(a) + std::fabs(b)) + 1e-6;
}

using Same = std::function<bool(double, double)>;

void expect_same(const testing::Tensors& before, const testing::Tensors& after, const Same& same) {
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, tensor] : before) {
    const testing::Tensor& other = after.at(name);
    ASSERT_EQ(tensor.shape, other.shape) << name;
    for (std::size_t i = 0; i < tensor.data.size(); ++i) {
      EXPECT_TRUE(same(tensor.data[i], other.data[i]))
          << name << "[" << i << "]: " << tensor.data[i] << " before, " << other.data[i]
          << " after";
    }
  }
}

class GoldenValues : public ::testing::TestWithParam<Golden> {};
class ExactGoldenValues : public ::testing::TestWithParam<Golden> {};

TEST_P(GoldenValues, SecondRunChangesNothing) {
  const ir::Graph once = run_folder(GetParam().folder, GetParam().graph);
  EXPECT_EQ(ir::print(run_folder(GetParam().folder, once)), ir::print(once));
}

TEST_P(ExactGoldenValues, KeepEveryBit) {
  const ir::Graph& graph = GetParam().graph;
  const ir::Graph after = run_folder(GetParam().folder, graph);
  const Sizes sizes = testing::small_sizes(graph);
  const bool any_zero = may_mix_zeros(graph);
  std::mt19937_64 random(1);
  for (const bool special : {false, true, true}) {
    const testing::Tensors inputs = testing::random_inputs(graph, sizes, special, random);
    expect_same(testing::evaluate(graph, sizes, inputs, testing::Rounding::every_value),
                testing::evaluate(after, sizes, inputs, testing::Rounding::every_value),
                [any_zero](double a, double b) { return identical(a, b, any_zero); });
  }
}

TEST_P(GoldenValues, MeansTheSameWithoutRoundings) {
  const ir::Graph& graph = GetParam().graph;
  const ir::Graph after = run_folder(GetParam().folder, graph);
  const Sizes sizes = testing::small_sizes(graph);
  std::mt19937_64 random(2);
  const testing::Tensors inputs = testing::random_inputs(graph, sizes, false, random);
  expect_same(testing::evaluate(graph, sizes, inputs, testing::Rounding::casts_only),
              testing::evaluate(after, sizes, inputs, testing::Rounding::casts_only),
              [](double a, double b) { return identical(a, b, true) || close(a, b); });
}

// Name, dtype and shape of every input, scalar and output.
std::string signature(const ir::Graph& graph) {
  const auto line = [](const std::string& label, const ir::TensorType& type) {
    return label + ": " + std::string(epifuse::name(type.dtype)) + ir::print(type.shape) + "\n";
  };
  std::string text;
  for (const ir::Node& node : graph.nodes) {
    if (node.op == ir::Op::input || node.op == ir::Op::scalar) text += line(node.name, node.type);
  }
  text += "->\n";
  for (const ir::Output& output : graph.outputs)
    text += line(output.name, graph[output.value].type);
  return text;
}

TEST_P(GoldenValues, KeepsTheSignature) {
  const ir::Graph& graph = GetParam().graph;
  EXPECT_EQ(signature(run_folder(GetParam().folder, graph)), signature(graph));
}

std::string test_name(const ::testing::TestParamInfo<Golden>& test) {
  std::string name = test.param.name;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Text, GoldenValues, ::testing::ValuesIn(read_goldens()), test_name);
INSTANTIATE_TEST_SUITE_P(Text, ExactGoldenValues, ::testing::ValuesIn(exact_goldens()), test_name);

}  // namespace
}  // namespace epifuse
