// Times fused against unfused plans on the CPU, for the matrix products of transformer blocks.
//
//   cpu_bench [--rounds N] [--seconds S] [word in a row's name]
//
// Both plans run in turn, in one process; a row shows the median time of each and the median of the
// ratios of the rounds. Unfused is the honest chain: one oneDNN matmul on all threads, then one
// multi-threaded pass for each op.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/backend.h"
#include "base/float_types.h"
#include "base/measure.h"
#include "base/parallel.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "plan/plan.h"

namespace epifuse {
namespace {

enum class Kind { residual, gelu_erf, bias_gelu_erf, bias_residual };

struct Workload {
  std::string_view name;
  Kind kind;
  std::int64_t n, k;
  std::vector<std::int64_t> ms;
};

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> rows{
      {"llama3_8b_mlp_down", Kind::residual, 4096, 14336, {1, 16, 128, 512}},
      {"llama3_8b_attention_output", Kind::residual, 4096, 4096, {1, 16, 128, 512}},
      {"bert_ffn_up", Kind::gelu_erf, 3072, 768, {1, 16, 128, 512}},
      {"vit_mlp_up", Kind::bias_gelu_erf, 3072, 768, {197, 1576}},
      {"vit_mlp_down", Kind::bias_residual, 768, 3072, {197, 1576}},
  };
  return rows;
}

bool has_bias(Kind kind) { return kind == Kind::bias_gelu_erf || kind == Kind::bias_residual; }
bool has_residual(Kind kind) { return kind == Kind::residual || kind == Kind::bias_residual; }

std::string text_of(const Workload& workload, DType dtype) {
  const std::string d(name(dtype));
  std::string inputs = fmt::format("x: {0}[M, {1}], w: {0}[{2}, {1}]", d, workload.k, workload.n);
  std::string body = "  h = matmul x, w^T\n", last = "h";
  const auto append = [&](std::string_view op) {
    body += fmt::format("  {}_{} = {}\n", last, "n", fmt::format(fmt::runtime(op), last));
    last += "_n";
  };
  if (has_bias(workload.kind)) {
    inputs += fmt::format(", b: {}[{}]", d, workload.n);
    append("add {}, b");
  }
  if (has_residual(workload.kind)) {
    inputs += fmt::format(", r: {}[M, {}]", d, workload.n);
    append("add {}, r");
  } else {
    append("gelu_erf {}");
  }
  return fmt::format("graph {}({}) {{\n{}  return {}\n}}\n", workload.name, inputs, body, last);
}

// Memory aligned as tensor libraries align it, filled with numbers in [-1, 1).
struct Tensor {
  std::vector<unsigned char> memory;
  TensorView view;
  Tensor(DType dtype, std::vector<std::int64_t> shape) {
    constexpr std::size_t kAlignment = 64;
    view.dtype = dtype;
    view.shape = std::move(shape);
    const std::int64_t count = view.num_elements();
    const std::size_t num_bytes = static_cast<std::size_t>(count) * size_bytes(dtype);
    memory.resize(num_bytes + kAlignment);
    std::size_t space = memory.size();
    view.data = memory.data();
    std::align(kAlignment, num_bytes, view.data, space);
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    const std::int64_t num_drawn = std::min<std::int64_t>(count, 1 << 16);
    for (std::int64_t i = 0; i < num_drawn; ++i) {
      store_element(view.data, dtype, i, uniform(random));
    }
    const std::size_t drawn_bytes = static_cast<std::size_t>(num_drawn) * size_bytes(dtype);
    auto* bytes = static_cast<unsigned char*>(view.data);
    for (std::size_t at = drawn_bytes; at < num_bytes; ++at) bytes[at] = bytes[at - drawn_bytes];
  }
};

class Contender {
 public:
  Contender(const ir::Graph& graph, const std::vector<Binding>& tensors, bool fuse)
      : executable_(cpu::prepare(plan::make_plan(graph, {Numerics::fast, fuse}), {})),
        bound_(std::make_shared<codegen::Bound>(
            backends::bind(executable_->plan(), tensors, DeviceKind::cpu))) {}

  double time_us() const {
    const auto start = std::chrono::steady_clock::now();
    executable_->run(bound_, nullptr);
    const auto end = std::chrono::steady_clock::now();
    return std::chrono::duration<double, std::micro>(end - start).count();
  }

 private:
  std::unique_ptr<backends::Executable> executable_;
  std::shared_ptr<codegen::Bound> bound_;
};

struct Options {
  int max_rounds = 400;
  double seconds = 2;  // for a row
  std::string filter;
};

void run_row(const Workload& workload, std::int64_t m, DType dtype, const Options& options) {
  const ir::Graph graph = passes::run_all(ir::parse(text_of(workload, dtype)), Numerics::fast);
  Tensor x(dtype, {m, workload.k}), w(dtype, {workload.n, workload.k}), b(dtype, {workload.n});
  Tensor r(dtype, {m, workload.n}), y(dtype, {m, workload.n});
  std::vector<Binding> tensors{{"x", x.view}, {"w", w.view}, {graph.outputs[0].name, y.view}};
  if (has_bias(workload.kind)) tensors.emplace_back("b", b.view);
  if (has_residual(workload.kind)) tensors.emplace_back("r", r.view);
  const Contender fused(graph, tensors, true), unfused(graph, tensors, false);
  std::vector<double> fused_us, unfused_us, ratios;
  double spent_us = -(fused.time_us() + unfused.time_us());  // the first runs make primitives
  for (int round = 0; round < options.max_rounds && spent_us < options.seconds * 1e6; ++round) {
    const bool fused_first = round % 2 == 0;
    if (fused_first) fused_us.push_back(fused.time_us());
    unfused_us.push_back(unfused.time_us());
    if (!fused_first) fused_us.push_back(fused.time_us());
    ratios.push_back(fused_us.back() / unfused_us.back());
    spent_us += fused_us.back() + unfused_us.back();
  }
  const double flops = 2.0 * static_cast<double>(m * workload.n * workload.k);
  fmt::print("| {} | {}x{}x{} | {} | {:.1f} | {:.1f} | {:.3f} | {:.0f} | {} |\n", workload.name, m,
             workload.n, workload.k, name(dtype), median(fused_us), median(unfused_us),
             median(ratios), flops / median(fused_us) * 1e-3, ratios.size());
  std::fflush(stdout);
}

int run(const Options& options) {
  fmt::print("{} threads\n\n", num_threads());
  fmt::print(
      "| workload | M x N x K | dtype | fused us | unfused us | ratio | GFLOP/s | rounds |\n");
  fmt::print("|---|---|---|---|---|---|---|---|\n");
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const Workload& workload : workloads()) {
      for (const std::int64_t m : workload.ms) {
        const std::string label = fmt::format("{} {} M={}", workload.name, name(dtype), m);
        if (label.find(options.filter) == std::string::npos) continue;
        run_row(workload, m, dtype, options);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace epifuse

int main(int argc, char** argv) {
  epifuse::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--rounds" && has_value) {
      options.max_rounds = std::atoi(argv[++i]);
    } else if (argument == "--seconds" && has_value) {
      options.seconds = std::atof(argv[++i]);
    } else {
      options.filter = argument;
    }
  }
  return epifuse::run(options);
}
