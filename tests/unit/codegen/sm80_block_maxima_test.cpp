// Runs the kernels of kernels/sm80 on the host, with results that depend on maxima of blocks of
// columns, against maxima taken here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sm80_on_host.h"

namespace epifuse::sm80 {
namespace {

// v = acc + r + t, or gate - up + r + t. Stores v less the largest magnitude of its block, and of
// each block that magnitude and twice the largest v.
struct Blocky {
  using Rows = Types<Bf16>;
  using Cols = Types<>;
  using Tiles = Types<Bf16>;
  using Scalars = Types<>;
  using Stores = Types<F32, F32>;
  static constexpr int kNumParameters = 0;
  static constexpr int kNumBlocks = 2;
  static constexpr int kRowsOfBlock = 1;
  static constexpr unsigned kBlockStores = 2, kResultTiles = 0;
  static void measure(float& acc, const Operands<Blocky>& x, float (&out)[2]) {
    acc += x.row[0] + x.tile[0];
    out[0] = std::fabs(acc);
    out[1] = acc;
  }
  static void measure(float& gate, float& up, const Operands<Blocky>& x, float (&out)[2]) {
    gate -= up;
    measure(gate, x, out);
  }
  static void apply(float acc, const Operands<Blocky>& x, float (&out)[2]) {
    out[0] = acc - x.block[0];
    out[1] = x.block[0] + 2 * x.block[1];
  }
  static void apply(float gate, float, const Operands<Blocky>& x, float (&out)[2]) {
    apply(gate, x, out);
  }
};

struct Plain : Layout<Bf16, true, true, 64, 16> {
  static constexpr int kTileN = 128;
};
struct WholeWarps : Plain {
  static constexpr int kTileN = 256, kWarpN = 64, kSharedBytes = 98304;
};
struct Persistent : Plain {
  static constexpr bool kPersistent = true;
};
template <bool kAdjacent>
struct Gates : WholeWarps {
  static constexpr bool kGated = true, kAdjacentGates = kAdjacent;
};

// Of a gated product row 2 n of b is the gate's, the next one its other half's.
template <class Config>
void test_blocks(int m, int n) {
  SCOPED_TRACE(n);
  constexpr int kK = 24, kProducts = Config::kGated ? 2 : 1;
  const int blocks = (n + kBlockColumns - 1) / kBlockColumns;
  Operand<Bf16> a(m, kK, true, 0, 0), b(kProducts * n, kK, true, 0, 1), rows(1, n, true, 0, 6);
  Operand<Bf16> tile(m, n, true, (4 - n % 4) % 4, 2);
  Operand<F32> y(m, n, true, (4 - n % 4) % 4, 3), scale(m, blocks, true, 1, 4);
  abi::CopiedGemmParams p = params(a.params(), b.params(), m, n, kK);
  p.second_b = p.b;
  p.second_b.data = b.data.data() + b.index(kProducts - 1, 0);
  if (!Config::kAdjacentGates) {
    p.b.row_stride *= kProducts;
    p.second_b.row_stride *= kProducts;
  }
  p.gemm.rows[0] = {rows.params().data, 1, {}};
  p.gemm.plain_tiles[0] = tile.params();
  p.gemm.non_tma_stores[0] = y.params();
  p.gemm.non_tma_stores[1] = scale.params();
  const unsigned all = tiles(m, n, Config::kTileM, kResultColumns<Config>);
  run<Config, Blocky>(p, Config::kPersistent ? (all + 1) / 2 : all);
  const auto value = [&](int r, int c) {
    const float other = kProducts == 2 ? sum(a, b, r, 2 * c + 1) : 0.0f;
    return sum(a, b, r, c * kProducts) - other + rows.at(0, c) + tile.at(r, c);
  };
  for (int r = 0; r < m; ++r) {
    for (int block = 0; block < blocks; ++block) {
      const int first = block * kBlockColumns, end = std::min(n, first + kBlockColumns);
      float magnitude = 0, largest = -1e9f;
      for (int c = first; c < end; ++c) {
        magnitude = std::max(magnitude, std::fabs(value(r, c)));
        largest = std::max(largest, value(r, c));
      }
      ASSERT_EQ(scale.at(r, block), magnitude + 2 * largest) << r << ", block " << block;
      for (int c = first; c < end; ++c) {
        ASSERT_EQ(y.at(r, c), value(r, c) - magnitude) << r << ", " << c;
      }
    }
  }
}

TEST(Sm80BlockMaxima, AreOfAllWarpsOfABlock) {
  for (const int n : {5, 128, 200, 300}) test_blocks<Plain>(70, n);
  test_blocks<WholeWarps>(33, 330);
}

TEST(Sm80BlockMaxima, AreOfOneTileAfterAnother) { test_blocks<Persistent>(150, 260); }

TEST(Sm80BlockMaxima, AreOfBothProducts) {
  test_blocks<Gates<false>>(40, 200);
  test_blocks<Gates<true>>(40, 200);
}

}  // namespace
}  // namespace epifuse::sm80
