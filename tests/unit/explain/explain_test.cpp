// What `explain` says beyond the golden texts: sizes, machines, and how a target runs the steps.
#include "explain/explain.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "epifuse/error.h"
#include "ir/text.h"

namespace epifuse {
namespace {

const Target kTarget{DeviceKind::cuda, "sm_90a"};

plan::Plan layer() {
  return plan::make_plan(ir::parse("graph g(x: bf16[M, 64], w: bf16[N, 64], b: bf16[N]) {\n"
                                   "  h = matmul x, w^T\n  y = add h, b\n  return y\n}\n"),
                         {});
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Explain, UsesTheGivenSizesAndSaysWhatItAssumes) {
  const std::string text = explain_text(layer(), {}, kTarget, {{"M", 17}}, "");
  EXPECT_TRUE(contains(text, "M = 17, N = 4096 (N assumed")) << text;
  const auto json =
      nlohmann::json::parse(explain_json(layer(), {}, kTarget, {{"M", 10}, {"N", 20}}, ""));
  EXPECT_TRUE(json["assumed_sizes"].empty());
  EXPECT_EQ(json["bytes"], 2 * (10 * 64 + 20 * 64 + 20 + 10 * 20));
  EXPECT_EQ(json["unfused_bytes"], 2 * (10 * 64 + 20 * 64 + 10 * 20 + 2 * 10 * 20 + 20));
}

TEST(Explain, TimesFollowTheMachine) {
  const Sizes sizes = {{"M", 4096}, {"N", 4096}};
  const auto us = [&](std::string_view machine) {
    const std::string json = explain_json(layer(), {}, kTarget, sizes, machine);
    return nlohmann::json::parse(json)["us"].get<double>();
  };
  EXPECT_DOUBLE_EQ(us("h200") / us("h100"), 3.35 / 4.8);  // both are bound by memory here
  EXPECT_EQ(us(""), us("h200"));
  EXPECT_THROW(us("abacus"), ArgumentError);
}

TEST(Explain, ShowsHowTheTargetRunsAStep) {
  const std::vector<backends::StepReport> reports = {
      {"sm90_dense, pingpong 128x192", {{"too_old", "Another kernel needs a newer GPU."}}}};
  const std::string text = explain_text(layer(), reports, kTarget, {}, "");
  EXPECT_TRUE(contains(text, "sm90_dense, pingpong 128x192")) << text;
  EXPECT_TRUE(contains(text, "Another kernel needs a newer GPU. (too_old)")) << text;
  const auto json = nlohmann::json::parse(explain_json(layer(), reports, kTarget, {}, ""));
  EXPECT_EQ(json["steps"][0]["how"], "sm90_dense, pingpong 128x192");
  EXPECT_EQ(json["steps"][0]["why_not"][0]["code"], "too_old");
}

TEST(Explain, OneReportPerStep) {
  const std::vector<backends::StepReport> two(2);
  EXPECT_THROW(explain_text(layer(), two, kTarget, {}, ""), InternalError);
}

}  // namespace
}  // namespace epifuse
