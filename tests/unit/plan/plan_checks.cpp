// Invariants of plans that tests check beside plan::verify.
#include "plan_checks.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ir/views.h"
#include "kernels/abi.h"
#include "tests/common/split_plan.h"

namespace epifuse::test {
namespace {

using ir::Op;
using ir::ValueId;

int count(const plan::Epilogue& epilogue, plan::Access access) {
  int result = 0;
  for (const plan::Load& load : epilogue.loads) result += load.access == access ? 1 : 0;
  return result;
}

void check_limits(const plan::Epilogue& epilogue) {
  using plan::Access;
  const int parameters = count(epilogue, Access::parameter);
  EXPECT_LE(parameters, abi::kMaxScalars);
  EXPECT_LE(static_cast<int>(epilogue.loads.size()) - parameters, abi::kMaxTailLoads);
  EXPECT_LE(epilogue.stores.size(), static_cast<std::size_t>(abi::kMaxStores));
  if (!epilogue.has_accumulator()) return;
  EXPECT_LE(count(epilogue, Access::tile), abi::kMaxTiles);
  EXPECT_LE(count(epilogue, Access::row), abi::kMaxVectors);
  EXPECT_LE(count(epilogue, Access::col), abi::kMaxVectors);
  EXPECT_LE(count(epilogue, Access::scalar), abi::kMaxScalars);
}

std::vector<ValueId> reads(const plan::Plan& plan, std::size_t step) {
  std::vector<ValueId> result;
  if (const auto* gemm = std::get_if<plan::FusedGemm>(&plan.steps[step])) {
    result = {gemm->gemm.a.value, gemm->gemm.b.value};
    if (gemm->gemm.second_b.value >= 0) result.push_back(gemm->gemm.second_b.value);
  }
  for (const plan::Load& load : plan.epilogue(step).loads) result.push_back(load.value);
  return result;
}

}  // namespace

void check_invariants(const plan::Plan& plan) {
  EXPECT_NO_THROW(plan::verify(plan));
  std::map<ValueId, int> num_stores;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    check_limits(plan.epilogue(i));
    for (ValueId value : reads(plan, i)) {
      const ValueId storage = ir::storage(plan.graph, value);
      const bool is_source = ir::is_source(plan.graph[storage].op);
      EXPECT_TRUE(is_source || num_stores.count(storage)) << plan.graph[value].name;
    }
    for (const plan::Store& store : plan.epilogue(i).stores) {
      const bool is_second = store.part == plan::Part::second_half || store.part == plan::Part::odd;
      num_stores[store.value] += is_second ? 0 : 1;
    }
  }
  for (const auto& [value, count] : num_stores) EXPECT_EQ(count, 1) << plan.graph[value].name;
  for (const ir::Output& output : plan.graph.outputs) {
    EXPECT_EQ(num_stores.count(output.value), 1u) << output.name;
  }
}

void check_left_out(const plan::Plan& plan) {
  std::set<ValueId> fused, computed, explained;
  for (const plan::Step& step : plan.steps) {
    for (ValueId value : computed_values(plan, step)) {
      computed.insert(value);
      if (std::holds_alternative<plan::FusedGemm>(step)) fused.insert(value);
    }
  }
  for (const plan::LeftOut& left_out : plan.left_out) {
    EXPECT_TRUE(explained.insert(left_out.value).second) << plan.graph[left_out.value].name;
    EXPECT_NE(left_out.why.sentence.find(plan.graph[left_out.value].name), std::string::npos);
  }
  std::set<ValueId> both = fused;
  both.insert(explained.begin(), explained.end());
  EXPECT_EQ(both, computed);
  EXPECT_EQ(fused.size() + explained.size(), computed.size());
}

plan::Plan split_all(const plan::Plan& plan) {
  plan::Plan result = split_products(plan);
  for (const plan::Step& step : result.steps) {
    if (const auto* product = std::get_if<plan::FusedGemm>(&step)) {
      EXPECT_EQ(plan::label(product->epilogue), "identity");
    }
  }
  return result;
}

}  // namespace epifuse::test
