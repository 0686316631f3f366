// The boxes of groups of K (kernels/sm90/k_groups.cuh) on the host, as TMA reads them, and the
// tensor maps that their launch asks for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "codegen/sm90/dense.h"
#include "cuda_on_host.h"
inline int __shfl_sync(unsigned, int x, int) { return x; }
#include "ir/text.h"
#include "kernels/sm90/k_groups.cuh"
#include "tests/unit/codegen/dense_bound.h"
#include "tests/unit/targets/reference_device.h"

namespace epifuse::sm90 {
namespace {

constexpr int kRows = 64;  // of K, of a step

abi::GemmParams params_of(const std::vector<int>& ends, int k) {
  abi::GemmParams p{};
  p.k = k;
  p.groups.data = ends.data();
  p.groups.stride = 1;
  p.groups.num_rows = static_cast<int>(ends.size());
  return p;
}

// The rows of K that come of windows of kRows rows, one at each of the k rows; -1 for zeros.
std::vector<int> rows_of(const BoxOfK& box, int k) {
  std::vector<int> out;
  for (int i = 0; i < kRows; ++i) {
    const int in_window = box.row + i;
    const bool exists =
        in_window >= 0 && in_window < kRows && box.window.inner >= 0 && box.window.inner < k;
    out.push_back(exists ? box.window.inner + in_window : -1);
  }
  return out;
}

// Each row of a group comes once, and no other.
TEST(Sm90KGroups, BoxesHaveTheRowsOfTheGroupAndZeros) {
  const std::vector<int> ends{0, 1, 64, 64, 129, 192, 319, 320, 384, 448, 450, 450, 1000};
  const int k = 1003;
  const abi::GemmParams p = params_of(ends, k);
  for (std::size_t g = 0; g < ends.size(); ++g) {
    SCOPED_TRACE(g);
    GroupOfK group;
    group.find(p, static_cast<int>(g));
    std::vector<int> got, want;
    const int steps = group.steps<kRows>();
    for (int step = 0; step < steps; ++step) {
      const BoxOfK box = box_of<kRows>(group, step);
      EXPECT_LE(box.row, 0);
      for (const int row : rows_of(box, k)) {
        if (row >= 0) got.push_back(row);
      }
    }
    for (int row = g == 0 ? 0 : ends[g - 1]; row < ends[g]; ++row) want.push_back(row);
    EXPECT_EQ(got, want);
    EXPECT_EQ(steps, std::max<int>((static_cast<int>(want.size()) + kRows - 1) / kRows, 1));
  }
}

TEST(Sm90KGroups, WrongEndsLeadNowhere) {
  const std::vector<int> ends{-5, 2000, 7};
  const abi::GemmParams p = params_of(ends, 100);
  for (int g = 0; g < 3; ++g) {
    GroupOfK group;
    group.find(p, g);
    EXPECT_LE(0, group.first);
    EXPECT_LE(group.first, group.end);
    EXPECT_LE(group.end, 100);
  }
}

// Groups begin within rows along K, off the boundaries that TMA needs.
TEST(Sm90KGroups, TakesOperandsThatRunAlongMAndN) {
  const targets::TargetInfo& target = *targets::find_target("sm_90a");
  const auto code = [&](const std::string& product) -> std::string {
    const plan::Plan plan = plan::make_plan(
        ir::parse("graph g(x: bf16[T, M], z: bf16[M, T], dy: bf16[T, N], dz: bf16[N, T], ends: "
                  "i32[G]) {\n  dw = k_grouped_matmul " +
                  product + ", ends\n  return dw\n}\n"),
        {});
    const auto no =
        codegen::sm90::why_not(plan, std::get<plan::FusedGemm>(plan.steps.front()), target);
    return no ? no->code : "";
  };
  EXPECT_EQ(code("x^T, dy"), "");
  EXPECT_EQ(code("z, dy"), "a_not_mn_major");
  EXPECT_EQ(code("x^T, dz^T"), "b_not_mn_major");
}

TEST(Sm90KGroups, MapsHaveAWindowForEachRowOfK) {
  const plan::Plan plan =
      plan::make_plan(ir::parse("graph g(x: bf16[T, M], dy: bf16[T, N], ends: i32[G]) {\n"
                                "  dw = k_grouped_matmul x^T, dy, ends\n  return dw\n}\n"),
                      {});
  const codegen::Bound bound =
      codegen::dense_bound(plan, {{"T", 300}, {"M", 264}, {"N", 1000}, {"G", 5}});
  const auto& step = std::get<plan::FusedGemm>(plan.steps.front());
  const auto configs = codegen::sm90::configs(step, *targets::find_target("sm_90a"));
  ASSERT_GT(configs.size(), 10u);
  for (const codegen::sm90::Config& config : configs) {
    const codegen::Launch launch =
        codegen::sm90::launch(plan, step, config, {}, bound, targets::reference_gpu().limits);
    for (const auto& [offset, columns] : {std::pair{offsetof(abi::GemmParams, a), 264},
                                          std::pair{offsetof(abi::GemmParams, b), 1000}}) {
      const auto map = std::ranges::find(launch.maps, offset, &codegen::TensorMapRequest::offset);
      ASSERT_NE(map, launch.maps.end());
      EXPECT_EQ(map->cols, columns);
      EXPECT_EQ(map->rows, kRows);
      EXPECT_EQ(map->box_rows, kRows);
      EXPECT_EQ(map->row_stride, columns);
      EXPECT_EQ(map->inner, 300);
      EXPECT_EQ(map->inner_stride, columns);
      EXPECT_TRUE(map->batched);
    }
  }
}

}  // namespace
}  // namespace epifuse::sm90
