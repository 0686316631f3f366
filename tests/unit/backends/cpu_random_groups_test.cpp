// Graphs of experts drawn at random, on the CPU, against the float64 reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/integers.h"
#include "ir/views.h"
#include "tests/unit/backends/cpu_harness.h"

namespace epifuse::cpu {
namespace {

class Drawer {
 public:
  explicit Drawer(std::uint64_t seed) : random_(seed) {}

  // Inputs that the body does not read are no harm.
  std::string text() {
    dtype_ = pick({"bf16", "f16", "f32"});
    padded_ = chance(25);
    gated_ = chance(60);
    std::string body = product();
    body += epilogue();
    const std::string x = padded_ ? "G, M, K" : gathers_ ? "S, K" : "T, K";
    const std::string w = fmt::format(fmt::runtime(nn_ ? "G, K, {}" : "G, {}, K"), wide());
    return fmt::format(
        "graph g(x: {0}[{1}], w: {0}[{2}], v: {0}[{2}], b: {0}[G, {3}], c: {0}[{4}, 1], q: "
        "{0}[S],\n"
        "        r: {0}[{4}, N], e: i32[G], i: i64[T], j: i32[T]) {{\n{5}  return {6}\n}}\n",
        dtype_, x, w, wide(), padded_ ? "G, M" : "T", body, outputs_);
  }

  Sizes sizes() {
    const std::int64_t t = 1 + draw(90);
    return {{"T", t},           {"S", 1 + draw(60)}, {"M", draw(40)},
            {"G", 1 + draw(9)}, {"K", 8 * draw(10)}, {"N", 1 + draw(70)}};
  }

 private:
  std::int64_t draw(std::int64_t below) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(below));
  }
  bool chance(int percent) { return draw(100) < percent; }
  std::string pick(const std::vector<std::string>& from) {
    return from[static_cast<std::size_t>(draw(std::ssize(from)))];
  }
  std::string wide() const { return halves_ ? "2*N" : "N"; }

  std::string product() {
    gathers_ = !padded_ && chance(50);
    nn_ = chance(50);
    halves_ = gated_ && chance(60);
    std::string body = gathers_ ? "  xt = take_rows x, i\n" : "";
    const auto multiply = [&](std::string_view name, std::string_view by) {
      return fmt::format("  {} = grouped_matmul {}, {}{}, e\n", name, gathers_ ? "xt" : "x", by,
                         nn_ ? "" : "^T");
    };
    body += multiply("h0", "w");
    if (chance(60)) {
      body += padded_ ? fmt::format("  b1 = reshape b [G, 1, {0}]\n  h = add h0, b1\n", wide())
                      : fmt::format("  b1 = repeat_rows b, e [T, {0}]\n  h = add h0, b1\n", wide());
    } else {
      body += "  h = max h0, -3\n";
    }
    if (gated_ && !halves_) body += multiply("u", "v");
    return body;
  }

  std::string epilogue() {
    std::string body;
    const std::string rows = padded_ ? ":, :" : ":";
    if (halves_) {
      const bool by_turns = chance(50);
      body += fmt::format("  g = slice h [{0}, {1}]\n  u = slice h [{0}, {2}]\n", rows,
                          by_turns ? "::2" : ":N", by_turns ? "1::2" : "N:");
    }
    const std::string act = pick({"silu", "gelu_erf", "relu", "tanh", "sigmoid"});
    body += fmt::format("  s = {} {}\n", act, halves_ ? "g" : "h");
    body += gated_ ? "  y0 = mul s, u\n" : "  y0 = abs s\n";
    body += scale();
    body += chance(40) ? "  y2 = add y1, r\n" : "  y2 = min y1, 5\n";
    outputs_ = "y2";
    if (chance(30)) outputs_ += ", h";
    if (!padded_ && chance(40)) {
      body += "  o = put_rows y2, j [T, N]\n";
      outputs_ = chance(50) ? "o" : outputs_ + ", o";
    }
    if (chance(25)) {
      body += "  m = row_max y2\n";
      outputs_ += ", m";
    }
    return body;
  }

  std::string scale() {
    if (!padded_ && chance(30)) {
      return "  qt = take_rows q, i\n  qc = reshape qt [T, 1]\n  y1 = mul y0, qc\n";
    }
    return chance(50) ? "  y1 = mul y0, c\n" : "  y1 = neg y0\n";
  }

  std::mt19937_64 random_;
  std::string dtype_, outputs_;
  bool padded_ = false, gated_ = false, gathers_ = false, nn_ = false, halves_ = false;
};

struct Inputs {
  std::vector<std::string> names;
  std::vector<HostTensor> tensors;

  Inputs(const ir::Graph& graph, const Sizes& sizes, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
      const ir::Node& node = graph.nodes[id];
      if (node.op != ir::Op::input) continue;
      HostTensor tensor(node.type.dtype, ir::eval(node.type.shape, sizes));
      if (is_integer(node.type.dtype)) {
        const auto use = ir::use_of_integers(graph, static_cast<ir::ValueId>(id));
        const auto values = ir::sample_integers(use, tensor.size(), sizes, random);
        tensor.fill({values.begin(), values.end()});
      } else {
        tensor.fill_normal(random, 0.5);
      }
      add(node.name, std::move(tensor));
    }
    for (const ir::Output& output : graph.outputs) {
      const ir::TensorType& type = graph[output.value].type;
      add(output.name, HostTensor(type.dtype, ir::eval(type.shape, sizes)));
    }
  }
  void add(const std::string& name, HostTensor tensor) {
    names.push_back(name);
    tensors.push_back(std::move(tensor));
  }
  std::vector<Binding> bindings() {
    std::vector<Binding> result;
    for (std::size_t i = 0; i < names.size(); ++i) result.push_back(tensors[i].bind(names[i]));
    return result;
  }
};

TEST(CpuRandomGroups, AreRightAtAnySizes) {
  constexpr int kGraphs = 200;
  int num_fused = 0;
  for (int seed = 0; seed < kGraphs; ++seed) {
    Drawer drawer(static_cast<std::uint64_t>(seed));
    const std::string text = drawer.text();
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, text));
    const Numerics levels[] = {Numerics::fast, Numerics::exact, Numerics::approx};
    const CpuProgram program(text, {levels[seed % 3]});
    plan::verify(program.plan());
    num_fused += program.plan().left_out.empty() ? 1 : 0;
    for (int run = 0; run < 2; ++run) {
      Inputs inputs(ir::parse(text), drawer.sizes(), static_cast<std::uint64_t>(seed + run));
      program.run_and_verify(inputs.bindings());
    }
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(num_fused, kGraphs / 3);
}

}  // namespace
}  // namespace epifuse::cpu
