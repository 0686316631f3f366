// Runs single ops and compares them with float64.
#include "check/op_accuracy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "backends/cuda/driver/memory.h"
#include "backends/reference/interval.h"
#include "base/check.h"
#include "base/float_types.h"
#include "base/parallel.h"
#include "base/text.h"
#include "check/op_samples.h"
#include "compile/program_state.h"

namespace epifuse {
namespace {

constexpr double kSmallestNormal = 0x1p-126;
constexpr double kSmall = 0x1p-20;
constexpr std::int64_t kSamplesPerPart = 1 << 14;

// y = op(x0, ..), all f32[N].
Graph graph_of(const ir::OpInfo& op) {
  const Dim n("N");
  Graph graph("one_op");
  std::vector<Value> operands;
  for (int i = 0; i < op.arity; ++i) {
    operands.push_back(graph.input(fmt::format("x{}", i), DType::f32, {n}));
  }
  graph.output("y", epifuse::apply(op.name, operands));
  return graph;
}

TensorView vector_view(void* data, std::size_t count, DeviceKind device) {
  TensorView view;
  view.data = data;
  view.shape = {static_cast<std::int64_t>(count)};
  view.device = device;
  return view;
}

std::vector<float> run_on_host(const Program& program, int arity, OpSamples& samples) {
  std::vector<float> results(samples.size(), std::nanf(""));
  std::vector<Binding> tensors;
  for (int i = 0; i < arity; ++i) {
    tensors.emplace_back(fmt::format("x{}", i),
                         vector_view(samples.operands[static_cast<std::size_t>(i)].data(),
                                     samples.size(), DeviceKind::cpu));
  }
  tensors.emplace_back("y", vector_view(results.data(), results.size(), DeviceKind::cpu));
  program.run(tensors);
  return results;
}

std::vector<float> run_on_device(const Program& program, int arity, const OpSamples& samples) {
  const auto device = cuda::Device::require();
  const std::size_t bytes = samples.size() * sizeof(float);
  std::vector<cuda::DeviceBuffer> buffers;
  std::vector<Binding> tensors;
  for (int i = 0; i <= arity; ++i) {
    cuda::DeviceBuffer& buffer = buffers.emplace_back(device, bytes);
    if (i < arity) {
      buffer.copy_from_host(samples.operands[static_cast<std::size_t>(i)].data(), bytes);
    }
    tensors.emplace_back(i < arity ? fmt::format("x{}", i) : "y",
                         vector_view(buffer.data(), samples.size(), DeviceKind::cuda));
  }
  program.run(tensors);
  cuda::synchronize(*device);
  std::vector<float> results(samples.size());
  buffers.back().copy_to_host(results.data(), bytes);
  return results;
}

std::vector<float> run_op(const ir::OpInfo& op, Numerics numerics, const Target& target,
                          OpSamples& samples) {
  const Program program = compile(graph_of(op), target, {numerics});
  const ir::Graph& graph = program.state().executable->plan().graph;
  EPIFUSE_CHECK(std::any_of(graph.nodes.begin(), graph.nodes.end(),
                            [&](const ir::Node& node) { return node.op == op.op; }),
                "the passes left the op as it is");
  return target.kind == DeviceKind::cuda ? run_on_device(program, op.arity, samples)
                                         : run_on_host(program, op.arity, samples);
}

// One part of the samples, and how it joins the others.
struct Part {
  OpAccuracy found;
  std::int64_t num_usual = 0, num_differ = 0;

  void add(const Part& other) {
    const OpAccuracy& more = other.found;
    if (more.max_ulps > found.max_ulps) {
      found.max_ulps = more.max_ulps;
      found.at = more.at;
    }
    found.max_bf16_ulps = std::max(found.max_bf16_ulps, more.max_bf16_ulps);
    found.max_small_error = std::max(found.max_small_error, more.max_small_error);
    found.max_scaled_error = std::max(found.max_scaled_error, more.max_scaled_error);
    found.max_share_of_bound = std::max(found.max_share_of_bound, more.max_share_of_bound);
    if (found.first_refused.empty()) found.first_refused = more.first_refused;
    found.num_samples += more.num_samples;
    found.num_refused += more.num_refused;
    num_usual += other.num_usual;
    num_differ += other.num_differ;
  }
};

// Counts results of one op.
class Meter {
 public:
  Meter(const ir::OpInfo& op, Numerics numerics) : op_(op), numerics_(numerics) {}

  void add(const std::array<double, 3>& x, double got, bool is_usual) {
    ++part.found.num_samples;
    const double value = op_.reference(x.data());
    check(x, value, got);
    const bool is_normal = value == 0 || std::abs(value) >= kSmallestNormal;
    if (!std::isfinite(value) || !std::isfinite(got) || !is_normal) return;
    // What rule 4 of docs/numerics.md explains is no error of the function.
    const double flushed =
        op_.arity == 1 && op_.out_eps > 1 ? kSmallestNormal * (1 + std::abs(x[0])) : 0;
    record_error(x, value, got, flushed);
    if (!is_usual) return;
    ++part.num_usual;
    const bool differs = round_to(got, DType::bf16) != round_to(value, DType::bf16);
    part.num_differ += differs && std::abs(got - value) > flushed ? 1 : 0;
  }

  Part part;

 private:
  void check(const std::array<double, 3>& x, double value, double got) {
    std::array<reference::Interval, 3> operands{};
    const auto arity = static_cast<std::size_t>(op_.arity);
    for (std::size_t i = 0; i < arity; ++i) operands[i] = reference::exactly(x[i]);
    const reference::Interval allowed = reference::round_to(
        reference::apply(op_, std::span(operands).first(arity), numerics_), DType::f32);
    part.found.max_share_of_bound =
        std::max(part.found.max_share_of_bound,
                 reference::share_of_allowed(allowed, value, got, DType::f32));
    if (reference::accepts(allowed, got) || part.found.num_refused++ > 0) return;
    std::vector<std::string> arguments;
    for (std::size_t i = 0; i < arity; ++i) arguments.push_back(number_text(x[i]));
    part.found.first_refused = fmt::format(
        "{}({}): got {}, expected {} within [{}, {}]", op_.name, fmt::join(arguments, ", "),
        number_text(got), number_text(value), number_text(allowed.low), number_text(allowed.high));
  }

  void record_error(const std::array<double, 3>& x, double value, double got, double flushed) {
    OpAccuracy& found = part.found;
    const double error = std::abs(got - value);
    const double ulps = std::max(0.0, error - flushed) / ulp(value, DType::f32);
    if (ulps > found.max_ulps) {
      found.max_ulps = ulps;
      found.at = x;
    }
    const double rounded = round_to(got, DType::bf16);
    if (std::isfinite(rounded)) {
      const double rounded_error = std::max(0.0, std::abs(rounded - value) - flushed);
      found.max_bf16_ulps = std::max(found.max_bf16_ulps, rounded_error / ulp(value, DType::bf16));
    }
    if (std::abs(value) < kSmall) found.max_small_error = std::max(found.max_small_error, error);
    found.max_scaled_error = std::max(found.max_scaled_error, error / (1 + std::abs(x[0])));
  }

  const ir::OpInfo& op_;
  Numerics numerics_;
};

Part compare(const ir::OpInfo& op, Numerics numerics, const OpSamples& samples,
             const std::vector<float>& results, std::int64_t part) {
  Meter meter(op, numerics);
  const auto begin = static_cast<std::size_t>(part * kSamplesPerPart);
  const std::size_t end = std::min(begin + kSamplesPerPart, samples.size());
  for (std::size_t i = begin; i < end; ++i) {
    std::array<double, 3> x{};
    for (int operand = 0; operand < op.arity; ++operand) {
      const auto which = static_cast<std::size_t>(operand);
      x[which] = static_cast<double>(samples.operands[which][i]);
    }
    meter.add(x, static_cast<double>(results[i]),
              samples.usual_begin <= i && i < samples.usual_end);
  }
  return std::move(meter.part);
}

}  // namespace

std::vector<ir::Op> measurable_ops() {
  std::vector<ir::Op> ops;
  for (const ir::OpInfo& row : ir::all_ops()) {
    if (row.kind == ir::OpKind::arith) ops.push_back(row.op);
  }
  return ops;
}

bool has_own_approx(ir::Op op) { return ir::info(op).approx != ir::info(op).fast; }

OpAccuracy measure_accuracy(ir::Op op, Numerics numerics, const Target& target,
                            std::size_t num_usual) {
  const ir::OpInfo& row = ir::info(op);
  OpSamples samples = op_samples(row.arity, num_usual);
  const std::vector<float> results = run_op(row, numerics, target, samples);
  const auto num_samples = static_cast<std::int64_t>(samples.size());
  std::vector<Part> parts(
      static_cast<std::size_t>((num_samples + kSamplesPerPart - 1) / kSamplesPerPart));
  parallel_for(std::ssize(parts), [&](std::int64_t i, int) {
    parts[static_cast<std::size_t>(i)] = compare(row, numerics, samples, results, i);
  });
  Part all;
  for (const Part& part : parts) all.add(part);
  all.found.op = op;
  all.found.numerics = numerics;
  if (all.num_usual > 0) {
    all.found.bf16_differ =
        static_cast<double>(all.num_differ) / static_cast<double>(all.num_usual);
  }
  return all.found;
}

}  // namespace epifuse
