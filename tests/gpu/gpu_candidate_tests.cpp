// Every candidate kernel of a step, not only the one that the model chooses, and the vendor's
// product with a tail, against the float64 reference: at sizes that are no multiples of its tile,
// with several tiles a CTA and with none.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "backends/bind.h"
#include "backends/cuda/choose/step_choice.h"
#include "backends/cuda/driver/context.h"
#include "backends/cuda/driver/memory.h"
#include "backends/cuda/run/run_builder.h"
#include "backends/reference/evaluate.h"
#include "base/file.h"
#include "check/verify_program.h"
#include "cli/tensors.h"
#include "codegen/family.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "plan/plan.h"

namespace epifuse {
namespace {

// Of tests/corpus, each one product and its epilogue in one step.
constexpr const char* kGraphs[] = {
    "access/access_mixed_dtypes",
    "access/access_residuals",
    "access/access_three_dtypes",
    "batched/bmm_per_batch_epilogue",
    "blocks/block_grouped",
    "blocks/block_quantised",
    "blocks/block_swiglu",
    "blocks/square_quantised",
    "blocks/square_swiglu",
    "fp8/fp8_blocks",
    "fp8/fp8_blocks_by_row",
    "fp8/fp8_blocks_gates",
    "fp8/fp8_blocks_grouped",
    "fp8/fp8_promoted",
    "fp8/fp8_quantised",
    "fp8/fp8_row_max",
    "fp8/fp8_row_scales",
    "fp8/fp8_swiglu",
    "fp8/fp8_swiglu_row_max",
    "gated/gated_batched",
    "gated/gated_bias_preact",
    "gated/gated_halves_nn",
    "gated/gated_interleaved_nn",
    "gated/gated_oai_preact",
    "gated/gated_reduced",
    "gated/gated_separate",
    "gated/gated_separate_nn",
    "grouped/grouped_halves",
    "grouped/grouped_moe_up",
    "grouped/grouped_padded",
    "grouped/grouped_put",
    "int8/int8_batched",
    "int8/int8_grouped",
    "int8/int8_row_scales",
    "int8/int8_swiglu",
    "k_grouped/k_grouped_accumulate",
    "k_grouped/k_grouped_bare",
    "matmul/matmul_nn_epilogue",
    "matmul/matmul_tn_epilogue",
    "outputs/outputs_mixed_dtypes",
    "outputs/preact_gelu_erf",
    "outputs/preact_gelu_tanh_residual",
    "reductions/reduce_col_max",
    "reductions/reduce_residual_rows",
    "reductions/reduce_row_sum",
    "models/residual_layer_scale",
    "widened/widened_batched",
    "widened/widened_e4m3",
    "widened/widened_halves",
    "widened/widened_i8",
    "widened/widened_interleaved",
    "widened/widened_quantised",
    "widened/widened_swiglu",
};
// The last one has more tiles of the largest config than there are multiprocessors. The second and
// the third are few rows off 16-byte boundaries, for which the usual family has kernels.
// Result rows of the sixth are off them, too, over several tiles.
const Sizes kSizes[] = {
    {{"M", 1}, {"N", 8}, {"K", 8}, {"B", 1}, {"T", 1}, {"G", 1}, {"S", 1}, {"R", 1}},
    {{"M", 5}, {"N", 133}, {"K", 205}, {"B", 2}, {"T", 5}, {"G", 3}, {"S", 5}, {"R", 7}},
    {{"M", 14}, {"N", 650}, {"K", 1772}, {"B", 3}, {"T", 14}, {"G", 3}, {"S", 14}, {"R", 7}},
    {{"M", 13}, {"N", 520}, {"K", 2056}, {"B", 2}, {"T", 13}, {"G", 3}, {"S", 13}, {"R", 7}},
    {{"M", 130}, {"N", 264}, {"K", 136}, {"B", 3}, {"T", 130}, {"G", 3}, {"S", 50}, {"R", 7}},
    {{"M", 515}, {"N", 1164}, {"K", 72}, {"B", 2}, {"T", 515}, {"G", 40}, {"S", 515}, {"R", 600}},
    {{"M", 130}, {"N", 4264}, {"K", 72}, {"B", 1}, {"T", 130}, {"G", 2}, {"S", 65}, {"R", 90}},
    {{"M", 2200}, {"N", 4104}, {"K", 200}, {"B", 1}, {"T", 2200}, {"G", 9}, {"S", 300}, {"R", 300}},
};
// Of graphs of 8 bits, whose rows must begin at multiples of 16 elements; NB and KB are blocks of
// 128.
const Sizes kSizesOf8Bits[] = {
    {{"M", 1}, {"N", 16}, {"K", 16}, {"B", 1}, {"T", 1}, {"G", 1}, {"NB", 1}, {"KB", 1}},
    {{"M", 13}, {"N", 528}, {"K", 2064}, {"B", 2}, {"T", 13}, {"G", 3}, {"NB", 5}, {"KB", 17}},
    {{"M", 130}, {"N", 272}, {"K", 144}, {"B", 3}, {"T", 130}, {"G", 3}, {"NB", 3}, {"KB", 2}},
    {{"M", 515}, {"N", 1168}, {"K", 80}, {"B", 2}, {"T", 515}, {"G", 40}, {"NB", 10}, {"KB", 1}},
    {{"M", 2200}, {"N", 4112}, {"K", 208}, {"B", 1}, {"T", 2200}, {"G", 9}, {"NB", 33}, {"KB", 2}},
};

// Of graphs of 8 bits with 128 A rows. The last of these give CTAs several tiles.
const Sizes kSizesOfSquares[] = {
    {{"M", 128}, {"N", 384}, {"K", 16}, {"A", 1}, {"B", 1}},
    {{"M", 384}, {"N", 384}, {"K", 144}, {"A", 3}, {"B", 3}},
    {{"M", 256}, {"N", 384}, {"K", 2064}, {"A", 2}, {"B", 2}},
    {{"M", 6400}, {"N", 384}, {"K", 208}, {"A", 50}, {"B", 3}},
};

// Of groups along K, each of which has a result of its own.
const Sizes kSizesOfKGroups[] = {
    {{"M", 1}, {"N", 8}, {"K", 8}, {"G", 1}},
    {{"M", 65}, {"N", 133}, {"K", 205}, {"G", 3}},
    {{"M", 136}, {"N", 264}, {"K", 1000}, {"G", 12}},
    {{"M", 264}, {"N", 520}, {"K", 776}, {"G", 5}},
    {{"M", 1032}, {"N", 776}, {"K", 2056}, {"G", 3}},
};

std::span<const Sizes> sizes_of(std::string_view graph) {
  const auto is_in = [&](std::string_view folder) { return graph.starts_with(folder); };
  if (is_in("k_grouped/")) return kSizesOfKGroups;
  if (is_in("blocks/square")) return kSizesOfSquares;
  if (is_in("fp8/") || is_in("blocks/") || is_in("int8/") || is_in("widened/")) {
    return kSizesOf8Bits;
  }
  return kSizes;
}

bool is_misaligned(const Sizes& sizes) { return sizes.at("K") % 8 != 0; }

// Why the family takes no kernel of the graph's one product; nothing where it does.
std::optional<plan::WhyNot> why_not(const ir::Graph& graph, const targets::TargetInfo& target,
                                    std::string_view named) {
  const plan::Plan plan = plan::make_plan(passes::run_all(graph, Numerics::fast), {});
  const auto& step = std::get<plan::FusedGemm>(plan.steps.front());
  return codegen::families_for(target, named).front()->why_not(plan, step, target);
}

class Candidates {
 public:
  Candidates(const ir::Graph& graph, const Sizes& sizes, cuda::Context& context,
             const targets::TargetInfo& target, const std::shared_ptr<jit::Jit>& jit,
             std::string_view family)
      : plan_(plan::make_plan(passes::run_all(graph, Numerics::fast), {})),
        context_(context),
        target_(target),
        prepared_(cuda::prepare_steps(plan_, target, *jit, true, std::nullopt, family)),
        late_(target, jit, true, std::nullopt, std::string(family)),
        host_(plan_.graph, sizes, {}),
        device_(host_, Target::cuda()),
        bound_(backends::bind(prepared_.plan, device_.bindings(), DeviceKind::cuda)) {}

  // The number of candidates that ran.
  int check_all() {
    if (prepared_.steps.size() != 1 || prepared_.steps[0].kind != cuda::StepKind::family) return 0;
    const auto usual = cuda::choose_step(prepared_, 0, late_, bound_, context_.rules());
    const auto& gemm = std::get<plan::FusedGemm>(prepared_.plan.steps.front());
    if (prepared_.steps[0].family->why_not_bound(prepared_.plan, gemm, bound_)) return 0;
    if (usual.kernels == nullptr || usual.expected_us == 0) return 0;
    const cuda::StepKernels& kernels = usual.behind_copies
                                           ? late_.variant(prepared_, 0, usual.variant, usual.sizes)
                                           : *usual.kernels;
    late_.compile(prepared_, 0, kernels, kernels.candidates);
    int num_run = 0;
    for (const codegen::GemmConfig& config : kernels.candidates) {
      const std::string name = cuda::candidate_name(kernels, config);
      if (late_.candidate(prepared_, 0, kernels, name) == nullptr) continue;
      check(name, scratch_bytes(kernels, config));
      ++num_run;
    }
    // Of other results the vendor's product rounds what a kernel keeps.
    const bool keeps_sums = gemm.gemm.result == DType::f32;
    if (keeps_sums && !gemm.gemm.has_groups() && !gemm.gemm.is_scaled()) {
      check(std::string(tune::kProductAndTail));
      ++num_run;
    }
    if (gemm.gemm.a.lookup < 0) return num_run;
    check(std::string(tune::kRowsFirst));
    return num_run + 1;
  }

 private:
  std::size_t scratch_bytes(const cuda::StepKernels& kernels,
                            const codegen::GemmConfig& config) const {
    if (kernels.family->scratch == nullptr) return 0;
    return kernels.family
        ->scratch(std::get<plan::FusedGemm>(prepared_.plan.steps.front()), config, kernels.variant,
                  bound_.sizes, context_.limits())
        .bytes;
  }

  void check(const std::string& name, std::size_t scratch = 0) {
    SCOPED_TRACE(name);
    const cuda::ForcedChoice forced{0, name};
    cuda::ChoiceRules rules = context_.rules();
    rules.forced = &forced;
    const cuda::DeviceBuffer workspace(cuda::Device::require(),
                                       cuda::workspace_bytes(prepared_, late_, rules, bound_));
    const auto& gemm = std::get<plan::FusedGemm>(prepared_.plan.steps.front());
    const bool may_copy =
        gemm.epilogue.reduces() || name == tune::kRowsFirst || name == tune::kProductAndTail;
    constexpr std::size_t kAlignment = 256;
    EXPECT_TRUE(may_copy || workspace.size_bytes() < scratch + kAlignment) << "something is copied";
    device_.poison_outputs();
    for (const cuda::Action& action : cuda::build_step(prepared_, 0, late_, context_, rules, bound_,
                                                       static_cast<char*>(workspace.data()))) {
      cuda::run(context_.device(), action, nullptr);
    }
    device_.fetch_outputs();
    if (outputs_are_known()) return;
    reference::Options options = reference_options(plan_.graph, plan_, target_);
    options.max_elements = 1 << 17;
    for (const reference::Verdict& verdict :
         reference::verify(plan_.graph, host_.bindings(), options)) {
      EXPECT_TRUE(verdict.ok()) << verdict.first_failure;
    }
    for (const ir::Output& output : plan_.graph.outputs) known_[output.name] = bytes_of(output);
  }

  // The bits of the run before, which was compared with the reference.
  bool outputs_are_known() const {
    return std::all_of(plan_.graph.outputs.begin(), plan_.graph.outputs.end(),
                       [&](const ir::Output& output) {
                         const auto known = known_.find(output.name);
                         return known != known_.end() && known->second == bytes_of(output);
                       });
  }
  std::string bytes_of(const ir::Output& output) const {
    const TensorView& view = host_.view(output.name);
    return {static_cast<const char*>(view.data),
            static_cast<std::size_t>(view.num_elements()) * size_bytes(view.dtype)};
  }

  const plan::Plan plan_;
  cuda::Context& context_;
  const targets::TargetInfo& target_;
  const cuda::Prepared prepared_;
  cuda::LateKernels late_;
  cli::HostTensors host_;
  cli::TargetTensors device_;
  const codegen::Bound bound_;
  std::map<std::string, std::string> known_;  // by output
};

// Of a graph, the kernels of a family; of the usual one where its name is empty.
class GpuCandidates : public ::testing::TestWithParam<std::tuple<const char*, std::string_view>> {};

TEST_P(GpuCandidates, AreRightAtOddSizes) {
  const auto& [name, family] = GetParam();
  const auto file = std::filesystem::path("tests/corpus") / fmt::format("{}.epi", name);
  const auto text = read_file(file);
  ASSERT_TRUE(text) << file << "; run from the repository's root";
  const ir::Graph graph = ir::parse(*text);
  const targets::TargetInfo& target = *targets::find_target(Target::cuda().arch);
  if (!family.empty()) {  // the usual one takes all of these graphs
    if (const auto no = why_not(graph, target, family)) GTEST_SKIP() << no->sentence;
  }
  const auto jit = std::make_shared<jit::Jit>(jit::KernelCache(jit::KernelCache::default_folder()));
  cuda::Context context(cuda::Device::require(), target);
  int num_run = 0;
  for (const Sizes& sizes : sizes_of(name)) {
    // Maxima of columns need every row of the reference: a minute for all candidates.
    if (name == std::string("reductions/reduce_col_max") && sizes.at("M") > 1000) continue;
    if (!family.empty() && is_misaligned(sizes)) continue;  // all configs once more
    SCOPED_TRACE(fmt::format("{}x{}x{}", sizes.at("M"), sizes.at("N"), sizes.at("K")));
    num_run += Candidates(graph, sizes, context, target, jit, family).check_all();
  }
  // Of all configs at each of the sizes, those that fit; few tiles of gates have whole blocks.
  EXPECT_GT(num_run, std::string_view(name).starts_with("blocks/") ? 4 : 15);
  fmt::print("{} {}: {} runs\n", name, family, num_run);
}

// Beside that of Hopper, which is the usual one of the GPUs that this runs on.
std::vector<std::string_view> other_families() {
  std::vector<std::string_view> names;
  for (const codegen::KernelFamily& family : codegen::all_families()) names.push_back(family.name);
  names.erase(names.begin());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Graphs, GpuCandidates,
                         ::testing::Combine(::testing::ValuesIn(kGraphs),
                                            ::testing::Values(std::string_view())));
INSTANTIATE_TEST_SUITE_P(OtherFamilies, GpuCandidates,
                         ::testing::Combine(::testing::ValuesIn(kGraphs),
                                            ::testing::ValuesIn(other_families())));

}  // namespace
}  // namespace epifuse
