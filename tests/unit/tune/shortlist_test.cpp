// Which configs are compiled ahead: those that the model chooses for sizes likely to come.
#include "tune/shortlist.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/text.h"

namespace epifuse::tune {
namespace {

using codegen::GemmConfig;
using codegen::GemmSizes;
using targets::DeviceProfile;

plan::GemmDesc gemm_of(const std::string& text) {
  const plan::Plan plan = plan::make_plan(ir::parse(text), {});
  return std::get<plan::FusedGemm>(plan.steps.front()).gemm;
}

std::vector<std::int64_t> rows_of(const std::vector<GemmSizes>& sizes) {
  std::vector<std::int64_t> rows;
  for (const GemmSizes& size : sizes) rows.push_back(size.m);
  return rows;
}

const std::vector<std::int64_t> kTypicalRows{64,   128,  256,  512,  1024,  1536, 2048,
                                             3072, 4096, 6144, 8192, 12288, 16384};

TEST(TypicalSizes, FixedOnesAreTakenAsTheyAre) {
  const auto sizes =
      typical_sizes(gemm_of("graph g(x: bf16[300, 512], w: bf16[768, 512], b: bf16[768]) {\n"
                            "  h = matmul x, w^T\n  y = add h, b\n  return y\n}\n"));
  ASSERT_EQ(sizes.size(), 1u);
  EXPECT_EQ(sizes[0].m, 300);
  EXPECT_EQ(sizes[0].n, 768);
  EXPECT_EQ(sizes[0].k, 512);
}

TEST(TypicalSizes, RowsGoFromADecodeStepToAFullCard) {
  const auto sizes =
      typical_sizes(gemm_of("graph g(x: bf16[M, 512], w: bf16[N, 512], b: bf16[N]) {\n"
                            "  h = matmul x, w^T\n  y = add h, b\n  return y\n}\n"));
  EXPECT_EQ(rows_of(sizes), kTypicalRows);
  for (const GemmSizes& size : sizes) {
    EXPECT_EQ(size.n, 4096);
    EXPECT_EQ(size.k, 512);
  }
}

TEST(TypicalSizes, FoldedBatchDimsAreRowsTogether) {
  const auto sizes =
      typical_sizes(gemm_of("graph g(x: bf16[B, S, 512], w: bf16[768, 512], b: bf16[768]) {\n"
                            "  h = matmul x, w^T\n  y = add h, b\n  return y\n}\n"));
  EXPECT_EQ(rows_of(sizes), kTypicalRows);
}

TEST(TypicalSizes, ColumnsCountTokensWhereRowsAreFixed) {
  const auto sizes =
      typical_sizes(gemm_of("graph g(w: bf16[768, 512], x: bf16[M, 512], b: bf16[768, 1]) {\n"
                            "  h = matmul w, x^T\n  y = add h, b\n  return y\n}\n"));
  ASSERT_EQ(sizes.size(), kTypicalRows.size());
  EXPECT_EQ(sizes[0].m, 768);
  EXPECT_EQ(sizes[0].n, 64);
  EXPECT_EQ(sizes.back().n, 16384);
}

struct Powers {
  int rows = 0;  // as a power of 10
  bool operator==(const Powers&) const = default;
};
std::string print(const Powers& config) { return fmt::format("10^{}", config.rows); }
std::optional<Powers> leaner(const Powers&) { return std::nullopt; }

// A family whose config i is best from rows 10^i on: the time is the distance in powers of 10.
double distance_us(const plan::FusedGemm&, const GemmConfig& config, const GemmSizes& sizes,
                   const DeviceProfile&) {
  double rows = 1;
  for (int i = 0; i < config.as<Powers>().rows; ++i) rows *= 10;
  const double m = static_cast<double>(sizes.m);
  return m > rows ? m / rows : rows / m;
}

class Shortlist : public ::testing::Test {
 protected:
  Shortlist() {
    family.expected_us = distance_us;
    for (int i = 0; i < 6; ++i) configs.emplace_back(Powers{i});
  }
  std::vector<std::size_t> of(const std::vector<std::int64_t>& rows, std::size_t most) {
    std::vector<GemmSizes> sizes;
    for (std::int64_t m : rows) sizes.push_back({1, m, 1, 1});
    return shortlist(family, {}, configs, sizes, {}, most);
  }
  codegen::KernelFamily family{};
  std::vector<GemmConfig> configs;
};

using Indices = std::vector<std::size_t>;

TEST_F(Shortlist, HasWhatTheModelChoosesForEachSize) {
  EXPECT_EQ(of({1, 100, 1000}, 4), (Indices{0, 2, 3}));
  EXPECT_EQ(of({1000, 1}, 4), (Indices{0, 3}));
  EXPECT_EQ(of({10, 11, 12}, 4), (Indices{1}));
}

TEST_F(Shortlist, WithoutRoomForAllTheyLoseLeastTogether) {
  EXPECT_EQ(of({1, 10, 100}, 1), (Indices{1}));
  EXPECT_EQ(of({1, 10, 100, 1000, 100000}, 3).size(), 3u);
  EXPECT_EQ(of({1, 1, 1, 100}, 1), (Indices{0}));
}

TEST_F(Shortlist, OfNothingIsNothing) {
  configs.clear();
  EXPECT_EQ(of({1}, 4), Indices{});
}

}  // namespace
}  // namespace epifuse::tune
