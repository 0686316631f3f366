// What `epifuse calibrate` measures are graphs of one kernel, whose sizes it has.
#include "cli/calibrate_probes.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

#include "codegen/family.h"
#include "ir/text.h"
#include "plan/plan.h"
#include "targets/targets.h"

namespace epifuse::cli {
namespace {

std::set<std::string> symbols_of(const ir::Graph& graph) {
  std::set<std::string> symbols;
  for (const ir::Node& node : graph.nodes) {
    for (const Dim& dim : node.type.shape) {
      if (dim.symbol()) symbols.insert(*dim.symbol());
    }
  }
  return symbols;
}

TEST(CalibrateProbes, ProductsAreOneStepThatAFamilyOfModelsTakes) {
  const targets::TargetInfo& target = targets::usual_target(DeviceKind::cuda);
  for (const char* text :
       {kScaled, kGelu, kResidual, kScaledNn, kScaledXm, kScaledXmNn, kScaledFp8}) {
    SCOPED_TRACE(text);
    const plan::Plan plan = plan::make_plan(ir::parse(text), {});
    ASSERT_EQ(plan.steps.size(), 1u);
    const auto* step = std::get_if<plan::FusedGemm>(&plan.steps.front());
    ASSERT_NE(step, nullptr);
    int families = 0;
    for (const codegen::KernelFamily& family : codegen::all_families()) {
      if (family.constants == nullptr || family.why_not(plan, *step, target)) continue;
      families += family.configs(*step, target).empty() ? 0 : 1;
    }
    EXPECT_GT(families, 0);
    EXPECT_EQ(symbols_of(plan.graph), (std::set<std::string>{"K", "M", "N"}));
  }
}

TEST(CalibrateProbes, TheVendorsProductAndTheSumAreOneStep) {
  const plan::Plan bare = plan::make_plan(ir::parse(kBare), {});
  ASSERT_EQ(bare.steps.size(), 1u);
  EXPECT_TRUE(plan::is_bare(std::get<plan::FusedGemm>(bare.steps.front())));
  const plan::Plan two = plan::make_plan(ir::parse(kTwo), {});
  ASSERT_EQ(two.steps.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<plan::Tail>(two.steps.front()));
  EXPECT_EQ(symbols_of(two.graph), std::set<std::string>{"N"});
}

TEST(CalibrateProbes, NoProductComesTwice) {
  std::set<std::array<std::int64_t, 3>> seen;
  std::set<std::string> texts;
  std::size_t unusual = 0;
  for (const Probe& probe : probes()) {
    const codegen::GemmSizes& sizes = probe.sizes;
    EXPECT_EQ(sizes.batch, 1);
    EXPECT_GT(sizes.m * sizes.n * sizes.k, 0);
    EXPECT_EQ(sizes.n % 8 + sizes.k % 8, 0) << "rows begin at 16-byte boundaries";
    EXPECT_TRUE(seen.insert({sizes.m, sizes.n, sizes.k}).second)
        << sizes.m << " " << sizes.n << " " << sizes.k;
    texts.insert(probe.texts.begin(), probe.texts.end());
    unusual += probe.is_usual ? 0 : 1;
  }
  EXPECT_EQ(texts, (std::set<std::string>{kScaled, kGelu, kResidual, kScaledNn, kScaledXm,
                                          kScaledXmNn, kScaledFp8}));
  EXPECT_GT(seen.size(), 50U);
  EXPECT_GT(unusual, 5U);
}

}  // namespace
}  // namespace epifuse::cli
