#include "sweep_check.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "backends/reference/evaluate.h"
#include "backends/target.h"
#include "base/float_types.h"
#include "base/parallel.h"
#include "check/verify_program.h"

namespace epifuse::cli {
namespace {

constexpr std::int64_t kCheckedRows = 4, kBlock = 1 << 16;

double root_mean_square(const unsigned char* data, DType dtype, std::int64_t count) {
  const std::int64_t step = std::max<std::int64_t>(1, count / kBlock);
  double sum = 0;
  std::int64_t samples = 0;
  for (std::int64_t i = 0; i < count; i += step, ++samples) {
    const double x = load_element(data, dtype, i);
    sum += x * x;
  }
  return std::sqrt(sum / static_cast<double>(std::max<std::int64_t>(samples, 1)));
}

}  // namespace

Slack slack_of(const ir::Graph& graph) {
  const bool has_fp8 = std::ranges::any_of(
      graph.nodes, [](const ir::Node& node) { return is_fp8(node.type.dtype); });
  return has_fp8 ? Slack{1.0 / 16, 1.0 / 16} : Slack{1.0 / 128, 1.0 / 512};
}

bool are_near(const TensorView& view, const std::vector<unsigned char>& known, const Slack& slack) {
  if (std::memcmp(view.data, known.data(), known.size()) == 0) return true;
  const std::int64_t count = view.num_elements();
  const double of_mean = slack.of_mean * root_mean_square(known.data(), view.dtype, count);
  std::atomic<bool> all = true;
  parallel_for((count + kBlock - 1) / kBlock, [&](std::int64_t block, int) {
    for (std::int64_t i = block * kBlock; i < std::min(count, (block + 1) * kBlock); ++i) {
      const double want = load_element(known.data(), view.dtype, i);
      const double got = load_element(view.data, view.dtype, i);
      if (got == want) continue;
      const double rounding = is_fp8(view.dtype) ? ulp(want, view.dtype) : 0;
      const double most = slack.relative * std::abs(want) + of_mean + rounding;
      if (!std::isfinite(want) || !(std::abs(got - want) <= most)) all = false;
    }
  });
  return all;
}

std::string SweepCheck::run(const std::function<void()>& candidate) {
  tensors_.target().poison_outputs();
  candidate();
  tensors_.target().fetch_outputs();
  if (agrees_with_known()) return "";
  return compare_with_reference();
}

bool SweepCheck::agrees_with_known() const {
  if (known_.empty()) return false;
  const Slack slack = slack_of(plan_.graph);
  for (std::size_t i = 0; i < known_.size(); ++i) {
    const TensorView& view = tensors_.host().view(plan_.graph.outputs[i].name);
    if (!are_near(view, known_[i], slack)) return false;
  }
  return true;
}

std::string SweepCheck::compare_with_reference() {
  reference::Options options = reference_options(plan_.graph, plan_, target_info(Target::cuda()));
  options.max_elements =
      kCheckedRows * tensors_.host().view(plan_.graph.outputs.front().name).shape.back();
  for (const reference::Verdict& verdict :
       reference::verify(plan_.graph, tensors_.host().bindings(), options)) {
    if (!verdict.ok()) return verdict.first_failure;
    rel_error_ = verdict.relative_error;
  }
  if (!known_.empty()) return "rows are right, but other elements are not those of other configs";
  for (const ir::Output& output : plan_.graph.outputs) {
    const TensorView& view = tensors_.host().view(output.name);
    const auto* bytes = static_cast<const unsigned char*>(view.data);
    known_.emplace_back(
        bytes, bytes + static_cast<std::size_t>(view.num_elements()) * size_bytes(view.dtype));
  }
  return "";
}

}  // namespace epifuse::cli
