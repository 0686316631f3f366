// The policies that the source of a Hopper GEMM names.
#include <gtest/gtest.h>

#include <string>

#include "codegen/sm90/dense.h"
#include "ir/text.h"

namespace epifuse::codegen::sm90 {
namespace {

// The line of a policy for y = x w^T + r, or x w + r.
std::string policy(const std::string& kind, const Config& config, const Variant& variant = {},
                   const char* w = "w: bf16[N, K]", const char* product = "matmul x, w^T") {
  const plan::Plan plan = plan::make_plan(
      ir::parse(std::string("graph g(x: bf16[M, K], ") + w +
                ", r: bf16[M, N]) {\n  h = " + product + "\n  y = add h, r\n  return y\n}\n"),
      {});
  const auto& step = std::get<plan::FusedGemm>(plan.steps.front());
  const std::string text = policies_text(step.gemm, EpilogueLayout(step.epilogue), config, variant);
  const std::string before = "  using " + kind + " = ";
  const std::size_t at = text.find(before);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + before.size();
  return text.substr(begin, text.find(';', begin) - begin);
}

constexpr Config kTile{.tile_m = 128, .tile_n = 128, .stages = 4};

Config with(void (*change)(Config&)) {
  Config out = kTile;
  change(out);
  return out;
}

TEST(Sm90Policies, ConsumersSayWhoMultipliesATile) {
  EXPECT_EQ(policy("Consumers", kTile), "sm90::PingPong");
  EXPECT_EQ(policy("Consumers", with([](Config& c) { c.cooperative = true; })),
            "sm90::Cooperative");
  EXPECT_EQ(policy("Consumers", with([](Config& c) {
                     c.cooperative = true;
                     c.split_k = 2;
                   })),
            "sm90::SplitK<sm90::Cooperative, 2>");
  EXPECT_EQ(policy("Consumers", with([](Config& c) {
                     c.cooperative = true;
                     c.tile_m = 192;
                   })),
            "sm90::ThreeCooperative");
  EXPECT_EQ(policy("Consumers", with([](Config& c) { c.tile_m = 192; })), "sm90::PingPong");
  EXPECT_EQ(policy("Consumers", with([](Config& c) { c.split_k = 4; })),
            "sm90::SplitK<sm90::OneConsumer, 4>");
}

TEST(Sm90Policies, TheSchedulerSaysWhichTilesThereAre) {
  EXPECT_EQ(policy("Scheduler", kTile), "sm90::OneProduct");
  EXPECT_EQ(policy("Scheduler", with([](Config& c) { c.two_widths = true; })),
            "sm90::TwoWidths<sm90::OneProduct>");
  EXPECT_EQ(policy("Scheduler", with([](Config& c) { c.pointer_arrays = true; })),
            "sm90::ManyProblems");
}

TEST(Sm90Policies, TheProducerSaysHowOperandsCome) {
  EXPECT_EQ(policy("Producer", kTile), "sm90::TmaProducer<sm90::Major::k, sm90::Major::k>");
  const std::string along_n = "sm90::TmaProducer<sm90::Major::k, sm90::Major::mn>";
  EXPECT_EQ(policy("Producer", kTile, {}, "w: bf16[K, N]", "matmul x, w"), along_n);
  EXPECT_EQ(policy("Producer", with([](Config& c) { c.cluster_m = 2; }), {}, "w: bf16[K, N]",
                   "matmul x, w"),
            "sm90::Multicast<" + along_n + ", 2, 1>");
  EXPECT_EQ(policy("Producer", kTile, {.misaligned_b = true}, "w: bf16[K, N]", "matmul x, w"),
            "sm90::MisalignedRows<" + along_n + ", false, true>");
  EXPECT_EQ(policy("Producer", with([](Config& c) { c.gathers = true; })),
            "sm90::GatheredRows<sm90::TmaProducer<sm90::Major::k, sm90::Major::k>>");
}

TEST(Sm90Policies, StagingSaysWhereFullOperandsAndResultsPass) {
  EXPECT_EQ(policy("Staging", with([](Config& c) { c.store_depth = 2; })),
            "sm90::OwnStaging<1, 2>");
  const Config in_place = with([](Config& c) {
    c.in_place = true;
    c.load_depth = 4;
  });
  EXPECT_EQ(policy("Staging", in_place), "sm90::StagingInPlace<4, 1>");
  EXPECT_EQ(policy("Staging", in_place, {.non_tma_stores = 1}), "sm90::OwnStaging<4, 1>")
      << "what is written by hand is not staged in place of anything";
  EXPECT_EQ(policy("Staging", with([](Config& c) { c.cooperative = true; })),
            "sm90::LoadsInRing<1, 1>");
}

}  // namespace
}  // namespace epifuse::codegen::sm90
