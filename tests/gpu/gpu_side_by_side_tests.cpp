// Every kernel that takes several products of one A, forced, against the float64 reference: at
// sizes that are no multiples of its tile, with a tile of a product and with several a CTA.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "backends/bind.h"
#include "backends/cuda/driver/context.h"
#include "backends/cuda/driver/memory.h"
#include "backends/cuda/run/run_builder.h"
#include "backends/cuda/run/run_side_by_side.h"
#include "backends/reference/evaluate.h"
#include "check/verify_program.h"
#include "cli/tensors.h"
#include "codegen/side_by_side.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "plan/plan.h"

namespace epifuse {
namespace {

// How an operand lies: its type, and how a product takes it.
struct Layout {
  const char *name, *a, *take_a, *b, *take_b;
};
constexpr Layout kLayouts[] = {{"nt", "[M, K]", "", "[{}, K]", "^T"},
                               {"nn", "[M, K]", "", "[K, {}]", ""},
                               {"tn", "[K, M]", "^T", "[K, {}]", ""}};

// Three products of N, L and L columns; `work`: with vectors, scalars and two results each.
std::string three(const Layout& layout, const char* dtype, const char* weights, bool work) {
  std::string inputs = fmt::format("x: {}{}", dtype, layout.a), body, outputs;
  for (int i = 0; i < 3; ++i) {
    const char* columns = i == 0 ? "N" : "L";
    inputs += fmt::format(", w{}: {}{}", i, weights, fmt::format(fmt::runtime(layout.b), columns));
    if (work) {
      inputs += fmt::format(", b{0}: f32[{1}], s{0}: f32[], e{0}: f32[M, 1]", i, columns);
    }
    outputs += fmt::format("{}y{}", i == 0 ? "" : ", ", i);
    if (!work) {
      body += fmt::format("  y{0} = matmul x{1}, w{0}{2}\n", i, layout.take_a, layout.take_b);
      continue;
    }
    body += fmt::format(
        "  p{0} = matmul x{1}, w{0}{2} -> f32\n  q{0} = mul p{0}, s{0}\n  h{0} = add q{0}, b{0}\n"
        "  g{0} = gelu_tanh h{0}\n  y{0} = cast g{0} -> {3}\n  z{0} = mul h{0}, e{0}\n",
        i, layout.take_a, layout.take_b, dtype);
    outputs += fmt::format(", z{}", i);
  }
  return fmt::format("graph g({}) {{\n{}  return {}\n}}\n", inputs, body, outputs);
}

class GpuSideBySide : public ::testing::TestWithParam<Layout> {
 protected:
  // The number of kernels that ran. Of those for any number of rows, every fourth by turns.
  int check(const std::string& text, const Sizes& sizes) {
    const plan::Plan plan = plan::make_plan(passes::run_all(ir::parse(text), Numerics::fast), {});
    const cuda::Prepared prepared = cuda::prepare_steps(plan, target_, *jit_);
    cuda::LateKernels late(target_, jit_);
    const codegen::StepRange range = late.range_at(prepared, 0);
    EXPECT_EQ(range.count, 3);
    const auto& step = std::get<plan::FusedGemm>(plan.steps.front());
    const codegen::SideBySideKind* kind =
        codegen::kind_side_by_side(*late.family_side_by_side(), step, target_, sizes.at("M"));
    if (kind == nullptr) return 0;
    const bool is_for_any = kind == &late.family_side_by_side()->side_by_side->kinds.back();
    const std::vector<codegen::GemmConfig> all = kind->configs(step, target_);
    std::vector<codegen::GemmConfig> configs;
    for (std::size_t i = is_for_any ? turn_++ % 4 : 0; i < all.size(); i += is_for_any ? 4 : 1) {
      configs.push_back(all[i]);
    }
    std::vector<codegen::KernelSource> sources;
    for (const codegen::GemmConfig& config : configs) {
      sources.push_back(kind->source(plan, step, config, target_));
    }
    jit_->get(sources);  // compiles them at once
    int num_run = 0;
    for (const codegen::GemmConfig& config : configs) {
      SCOPED_TRACE(fmt::format("{} rows, {}", sizes.at("M"), codegen::print(config)));
      if (run(prepared, late, config, sizes)) ++num_run;
    }
    return num_run;
  }

 private:
  // False where the kernel spills, as some for few rows do.
  bool run(const cuda::Prepared& prepared, cuda::LateKernels& late,
           const codegen::GemmConfig& config, const Sizes& sizes) {
    cli::HostTensors host(prepared.plan.graph, sizes, {});
    cli::TargetTensors device(host, Target::cuda());
    const codegen::Bound bound = backends::bind(prepared.plan, device.bindings(), DeviceKind::cuda);
    const cuda::ForcedChoice forced{0, std::string(tune::kSideBySide) + codegen::print(config)};
    cuda::ChoiceRules rules = context_.rules();
    rules.forced = &forced;
    if (cuda::num_side_by_side(prepared, 0, late, rules, bound) == 0) return false;
    device.poison_outputs();
    const auto actions = cuda::build_step(prepared, 0, late, context_, rules, bound, nullptr);
    EXPECT_EQ(actions.size(), 1) << "one launch";
    if (actions.empty()) return true;
    cuda::run(context_.device(), actions.front(), nullptr);
    device.fetch_outputs();
    reference::Options options = reference_options(prepared.plan.graph, prepared.plan, target_);
    options.max_elements = 1 << 15;
    for (const reference::Verdict& verdict :
         reference::verify(prepared.plan.graph, host.bindings(), options)) {
      EXPECT_TRUE(verdict.ok()) << verdict.first_failure;
    }
    return true;
  }

  std::size_t turn_ = 0;
  const targets::TargetInfo& target_ = *targets::find_target(Target::cuda().arch);
  const std::shared_ptr<jit::Jit> jit_ =
      std::make_shared<jit::Jit>(jit::KernelCache(jit::KernelCache::default_folder()));
  cuda::Context context_{cuda::Device::require(), target_};
};

// The last ones of few and of many rows have more tiles than there are multiprocessors.
constexpr std::array<std::array<std::int64_t, 4>, 9> kSizes{{{16, 200, 72, 136},
                                                             {17, 200, 72, 136},
                                                             {33, 16, 264, 1032},
                                                             {64, 520, 40, 2056},
                                                             {57, 9000, 1032, 72},
                                                             {65, 200, 72, 136},
                                                             {136, 16, 264, 1032},
                                                             {777, 520, 40, 2056},
                                                             {2100, 1800, 1032, 72}}};

TEST_P(GpuSideBySide, EveryKernelIsRight) {
  int num_run = 0;
  for (const char* dtype : {"bf16", "f16"}) {
    for (const bool work : {false, true}) {
      const std::string text = three(GetParam(), dtype, dtype, work);
      SCOPED_TRACE(text);
      for (const auto& [m, n, l, k] : kSizes) {
        // Rows of A along M begin at multiples of 16 bytes.
        const std::int64_t rows = GetParam().take_a[0] == '^' ? (m + 7) / 8 * 8 : m;
        num_run += check(text, {{"M", rows}, {"N", n}, {"L", l}, {"K", k}});
      }
    }
  }
  EXPECT_GT(num_run, 250);  // nearly all
  fmt::print("{}: {} runs\n", GetParam().name, num_run);
}

class GpuWidenedSideBySide : public GpuSideBySide {};

TEST_P(GpuWidenedSideBySide, EveryKernelIsRight) {
  int num_run = 0;
  for (const char* weights : {"e4m3", "i8"}) {
    const std::string text = three(GetParam(), "bf16", weights, weights[0] == 'i');
    SCOPED_TRACE(text);
    for (const auto& [m, n, l, k] : kSizes) {
      num_run += check(text, {{"M", m}, {"N", n}, {"L", l}, {"K", (k + 15) / 16 * 16}});
    }
  }
  EXPECT_GT(num_run, 80);
  fmt::print("widened: {} runs\n", num_run);
}

INSTANTIATE_TEST_SUITE_P(AlongK, GpuWidenedSideBySide, ::testing::Values(kLayouts[0]),
                         [](const auto& each) { return std::string(each.param.name); });

// Of 8 bits, with one column of scales for all three, and with scales of blocks: 128 x 128 of the
// weights, or 1 x 128.
std::string three_scaled(bool blocks, bool by_column) {
  std::string inputs = blocks ? "x: e4m3[M, K], s: f32[M, KB]" : "x: e4m3[M, K], s: f32[M, 1]";
  std::string body, outputs;
  for (int i = 0; i < 3; ++i) {
    const char *n = i == 0 ? "N" : "L", *of_blocks = i == 0 ? "NB" : "LB";
    inputs += fmt::format(", w{}: e4m3[{}, K]", i, n);
    if (!blocks) {
      inputs += fmt::format(", t{}: f32[1, {}]", i, n);
      body += fmt::format(
          "  p{0} = matmul x, w{0}^T\n  q{0} = mul p{0}, s\n  r{0} = mul q{0}, t{0}\n"
          "  y{0} = cast r{0} -> bf16\n",
          i);
    } else if (by_column) {
      inputs += fmt::format(", t{}: f32[KB, {}]", i, n);
      body += fmt::format(
          "  u{0} = transpose t{0}\n  y{0} = scaled_matmul x, w{0}^T, s, u{0} -> bf16\n", i);
    } else {
      inputs += fmt::format(", t{}: f32[{}, KB]", i, of_blocks);
      body += fmt::format("  y{0} = scaled_matmul x, w{0}^T, s, t{0} -> bf16\n", i);
    }
    outputs += fmt::format("{}y{}", i == 0 ? "" : ", ", i);
  }
  return fmt::format("graph g({}) {{\n{}  return {}\n}}\n", inputs, body, outputs);
}

class GpuScaledSideBySide : public GpuSideBySide {};

TEST_P(GpuScaledSideBySide, EveryKernelIsRight) {
  const std::string form = GetParam().name;
  const std::string text = three_scaled(form != "rows", form == "columns");
  SCOPED_TRACE(text);
  const auto blocks = [](std::int64_t size) { return (size + 127) / 128; };
  int num_run = 0;
  for (const auto& [m, n, l, k] : kSizes) {
    const std::int64_t depth = (k + 15) / 16 * 16;  // rows begin at multiples of 16 bytes
    Sizes sizes{{"M", m}, {"N", n}, {"L", l}, {"K", depth}};
    if (form != "rows") sizes["KB"] = blocks(depth);
    if (form == "blocks") sizes["NB"] = blocks(n), sizes["LB"] = blocks(l);
    num_run += check(text, sizes);
  }
  EXPECT_GT(num_run, form == "rows" ? 100 : 35);
  fmt::print("{}: {} runs\n", form, num_run);
}

constexpr Layout kScalings[] = {{.name = "rows"}, {.name = "blocks"}, {.name = "columns"}};
INSTANTIATE_TEST_SUITE_P(Scalings, GpuScaledSideBySide, ::testing::ValuesIn(kScalings),
                         [](const auto& each) { return std::string(each.param.name); });

INSTANTIATE_TEST_SUITE_P(Layouts, GpuSideBySide, ::testing::ValuesIn(kLayouts),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace epifuse
