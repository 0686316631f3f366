// Which casts a store repeats, and what is left without them.
#include "codegen/store_rounding.h"

#include <gtest/gtest.h>

#include <string>

#include "ir/text.h"
#include "plan/plan.h"

namespace epifuse::codegen {
namespace {

std::string left(const std::string& body, bool of_8_bits_alone = false) {
  const std::string text = "graph g(x: e4m3[M, K], w: e4m3[N, K], b: bf16[N], s: f32[N]) {\n" +
                           ("  h = matmul x, w^T\n" + body) + "}\n";
  const plan::Plan plan = plan::make_plan(ir::parse(text), {});
  const plan::Epilogue out = without_repeated_casts(
      std::get<plan::FusedGemm>(plan.steps.front()).epilogue, of_8_bits_alone);
  plan::verify(out);
  return plan::print(out);
}

TEST(StoreRounding, ACastThatIsStoredAloneGoes) {
  EXPECT_EQ(left("  t = mul h, s\n  y = cast t -> e4m3\n  return y\n"),
            "load s: row f32\nt0 = mul acc, s\nstore y: e4m3 = t0\n");
}

TEST(StoreRounding, SlotsBehindItMoveUp) {
  EXPECT_EQ(left("  t = mul h, s\n  y = cast t -> bf16\n  a = silu t\n  z = cast a -> f16\n"
                 "  return y, z\n"),
            "load s: row f32\nt0 = mul acc, s\nt1 = silu t0\nstore y: bf16 = t0\n"
            "store z: f16 = t1\n");
}

TEST(StoreRounding, ACastThatIsReadStays) {
  const std::string text =
      left("  t = mul h, s\n  y = cast t -> bf16\n  u = add y, b\n  return y, u\n");
  EXPECT_NE(text.find("cast"), std::string::npos) << text;
}

TEST(StoreRounding, ACastOfTheSumsStays) {
  EXPECT_NE(left("  y = cast h -> e4m3\n  return y\n").find("cast"), std::string::npos);
}

TEST(StoreRounding, ACastThatIsReducedStays) {
  const std::string body = "  t = mul h, s\n  y = cast t -> bf16\n  r = row_max y\n  return y, r\n";
  EXPECT_NE(left(body).find("cast"), std::string::npos);
}

TEST(StoreRounding, OfOtherKernelsOnlyCastsTo8BitsGo) {
  const std::string body =
      "  t = mul h, s\n  y = cast t -> bf16\n  z = cast t -> e5m2\n  return y, z\n";
  EXPECT_EQ(left(body, true),
            "load s: row f32\nt0 = mul acc, s\nt1 = cast t0 -> bf16\nstore y: bf16 = t1\n"
            "store z: e5m2 = t0\n");
}

}  // namespace
}  // namespace epifuse::codegen
