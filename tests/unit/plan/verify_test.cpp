// The verifier notices plans that break an invariant.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "epifuse/error.h"
#include "ir/text.h"
#include "plan/plan.h"

namespace epifuse::plan {
namespace {

Plan two_layers() {
  return make_plan(ir::parse("graph g(x: bf16[M, 64], w: bf16[64, 64], b: bf16[64]) {\n"
                             "  h = matmul x, w^T\n  t = add h, b\n  u = silu t\n"
                             "  d = matmul u, w^T\n  y = add d, x\n  r = row_sum y\n"
                             "  s = col_sum y\n  return y, r, s\n}\n"),
                   {});
}

FusedGemm& gemm(Plan& plan, std::size_t i) { return std::get<FusedGemm>(plan.steps.at(i)); }
Tail& tail(Plan& plan, std::size_t i) { return std::get<Tail>(plan.steps.at(i)); }

void expect_refused(const std::function<void(Plan&)>& breakage, const std::string& message) {
  Plan plan = two_layers();
  ASSERT_NO_THROW(verify(plan));
  breakage(plan);
  try {
    verify(plan);
    ADD_FAILURE() << "not noticed: " << message;
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

TEST(VerifyPlan, NoticesOrder) {
  expect_refused([](Plan& p) { std::swap(p.steps[0], p.steps[1]); }, "'u' is read before");
  expect_refused([](Plan& p) { p.steps.pop_back(); }, "output s is not written");
  expect_refused([](Plan& p) { p.steps.push_back(p.steps[0]); }, "store u is written twice");
}

TEST(VerifyPlan, NoticesLoads) {
  expect_refused([](Plan& p) { gemm(p, 0).epilogue.loads[0].access = Access::tile; },
                 "load b is not what its value is");
  expect_refused([](Plan& p) { gemm(p, 0).epilogue.loads[0].dtype = DType::f32; },
                 "load b is not what its value is");
  expect_refused(
      [](Plan& p) {
        auto& loads = gemm(p, 1).epilogue.loads;
        loads.push_back(loads[0]);
      },
      "loaded twice");
}

TEST(VerifyPlan, NoticesSlots) {
  expect_refused([](Plan& p) { gemm(p, 0).epilogue.computes[0].args[0] = 3; }, "slot 3");
  expect_refused([](Plan& p) { gemm(p, 0).epilogue.stores[0].source = -1; }, "slot -1");
  expect_refused([](Plan& p) { gemm(p, 0).epilogue.stores.clear(); }, "stores nothing");
}

TEST(VerifyPlan, NoticesStores) {
  expect_refused([](Plan& p) { gemm(p, 0).epilogue.stores[0].dtype = DType::f32; },
                 "store u differs from its value");
  expect_refused([](Plan& p) { tail(p, 2).epilogue.stores.at(0).kind = StoreKind::row_sum; },
                 "store s is of the wrong kind");
  expect_refused(
      [](Plan& p) {
        tail(p, 2).shape = {Dim("N"), 64};
      },
      "store s has another shape than its step");
  expect_refused([](Plan& p) { gemm(p, 0).epilogue.num_accumulators = 0; }, "no accumulator");
}

// Copies of a load, each of another value.
void repeat_load(Epilogue& epilogue, int count) {
  Load load = epilogue.loads.at(0);
  for (load.value = 100; count > 0; --count, ++load.value) epilogue.loads.push_back(load);
}

TEST(VerifyPlan, NoticesLimits) {
  const auto expect_limit = [](Access access, int most, const std::string& code) {
    expect_refused(
        [=](Plan& p) {
          gemm(p, 0).epilogue.loads.at(0).access = access;
          repeat_load(gemm(p, 0).epilogue, most);
        },
        code);
  };
  expect_limit(Access::row, 4, "too_many_rows");
  expect_limit(Access::col, 4, "too_many_cols");
  expect_limit(Access::tile, 4, "too_many_tiles");
  expect_limit(Access::scalar, 8, "too_many_scalars");
  expect_limit(Access::parameter, 8, "too_many_parameters");
  expect_limit(Access::row, 11, "too_many_loads");
  expect_refused([](Plan& p) { repeat_load(tail(p, 2).epilogue, 12); }, "too_many_loads");
  expect_refused(
      [](Plan& p) {
        auto& stores = gemm(p, 0).epilogue.stores;
        const Store store = stores.at(0);
        stores.resize(5, store);
      },
      "too_many_stores");
}

TEST(VerifyPlan, NoticesReasons) {
  expect_refused([](Plan& p) { p.left_out.push_back(p.left_out.at(0)); }, "left out twice");
  expect_refused([](Plan& p) { p.left_out.at(0).why.code = "because"; }, "unknown reason");
  expect_refused([](Plan& p) { p.left_out.at(0).value = gemm(p, 0).epilogue.stores[0].value; },
                 "is fused");
}

}  // namespace
}  // namespace epifuse::plan
