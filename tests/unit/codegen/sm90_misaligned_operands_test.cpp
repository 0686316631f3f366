// Operands whose rows start off 16-byte boundaries: a host's TMA loads what the launch's maps
// describe, the kernel's own code puts it in order, and every element of every tile is looked at.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "codegen/sm90/dense.h"
#include "cuda_on_host.h"
#include "ir/text.h"
#include "kernels/common/row_classes.cuh"
#include "tests/unit/targets/reference_device.h"

namespace epifuse::codegen {
namespace {

using Longs = std::vector<std::int64_t>;
using Element = std::uint16_t;

constexpr int kTileM = 128, kTileN = 192, kTileK = 64;
constexpr int kBlock = 64;  // rows, and elements of a row
constexpr Element kPoison = 0xffff;

// A bf16 tensor in memory that starts `offset` elements after a 16-byte boundary. Elements are
// numbered, what lies between and around them is poisoned.
struct Memory {
  ir::Layout layout;
  std::vector<Element> elements;

  Memory(const Longs& shape, const Longs& strides, std::int64_t offset) {
    layout = {0, shape, strides};
    std::int64_t last = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) last += (shape[d] - 1) * strides[d];
    elements.assign(static_cast<std::size_t>(last) + 64, kPoison);
    const auto address = reinterpret_cast<std::uintptr_t>(elements.data());
    first_ = static_cast<std::int64_t>((16 - address % 16) % 16 / sizeof(Element)) + offset + 8;
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
    Longs index(shape.size(), 0);
    for (Element number = 1;; number = static_cast<Element>(number % 0xfffe + 1)) {
      at(index) = number;
      std::size_t d = shape.size();
      while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
      if (d == 0) break;
    }
  }
  Element& at(const Longs& index) {
    std::int64_t place = first_;
    for (std::size_t d = 0; d < index.size(); ++d) place += index[d] * layout.strides[d];
    return elements[static_cast<std::size_t>(place)];
  }
  BoundTensor bound() { return {elements.data() + first_, layout}; }

 private:
  std::int64_t first_ = 0;
};

// What TMA reads at (row, col) of a map: zero outside.
Element read(const TensorMapRequest& map, std::int64_t row, std::int64_t col, std::int64_t inner) {
  if (row < 0 || row >= map.rows || col < 0 || col >= map.cols) return 0;
  EXPECT_LT(inner, map.inner);
  return static_cast<const Element*>(
      map.data)[row * map.row_stride + col + (map.batched ? inner * map.inner_stride : 0)];
}

// A box without swizzle, rows one by one. What TMA asks of it is measured (docs/gotchas-hopper.md).
void load_box(const TensorMapRequest& map, unsigned char* shared, std::int64_t row,
              std::int64_t col, std::int64_t inner) {
  ASSERT_FALSE(map.swizzled);
  ASSERT_EQ(col * 2 % 16, 0) << "a box starts at a 16-byte boundary";
  ASSERT_EQ(map.box_cols * 2 % 16, 0);
  ASSERT_EQ(reinterpret_cast<std::uintptr_t>(shared) % 128, 0u);
  for (int i = 0; i < map.box_rows; ++i) {
    for (int c = 0; c < map.box_cols; ++c) {
      const Element x = read(map, row + i, col + c, inner);
      std::memcpy(shared + (i * map.box_cols + c) * 2, &x, sizeof x);
    }
  }
}

int swizzled(int offset) { return offset ^ ((offset >> 7 & 7) << 4); }

// One operand's tile in shared memory, as the movers leave it.
template <bool kIsKMajor, int kRows>
struct Tile {
  using Rows = StagedRows<kIsKMajor, kRows>;
  alignas(1024) unsigned char staged[Rows::kBytes];
  alignas(1024) unsigned char bytes[kRows * 128];

  // As load_classes and move_rows of kernels/sm90/misaligned.cuh.
  void load(const std::map<int, const TensorMapRequest*>& maps,
            const abi::MisalignedOperand& operand, int first, int k, int inner) {
    std::memset(staged, 0xdd, sizeof staged);
    std::memset(bytes, 0xee, sizeof bytes);
    for (int j = 0; j < abi::kRowClasses; ++j) {
      ASSERT_EQ(maps.at(j)->box_rows, Rows::kBoxRows);
      for (int box = 0; box < Rows::kBoxes; ++box) {
        const int mn = first + box * kBlock;
        load_box(*maps.at(j), staged + box * Rows::kBlockBytes + j * Rows::kClassBytes,
                 (kIsKMajor ? mn : k) / abi::kRowClasses, kIsKMajor ? k : mn, inner);
      }
    }
    for (int round = 0; round < Rows::kBlocks * kRoundsOfBlock; ++round) {
      for (int lane = 0; lane < 32; ++lane) {
        move_round<Rows>(staged, bytes, operand.shifts, round, lane);
      }
    }
  }
  // Row r of a block of 64 rows, column c of its 64.
  Element at(int block, int r, int c) const {
    Element x;
    std::memcpy(&x, bytes + swizzled(block * kBlock * 128 + r * 128 + c * 2), sizeof x);
    return x;
  }
};

plan::Plan plan_of(const std::string& operands, const std::string& product) {
  return plan::make_plan(ir::parse("graph g(" + operands + ") {\n  h = " + product +
                                   "\n  y = relu h\n  return y\n}\n"),
                         {});
}

struct Problem {
  std::int64_t m, n, k;
  std::int64_t gap = 1, offset = 1;  // between rows of both operands; of their first elements
  std::int64_t batch = 0;            // 0: a single product
  std::int64_t batch_gap = 0;
};

class Operands {
 public:
  Operands(bool is_k_major, const Problem& problem)
      : is_k_major_(is_k_major),
        problem_(problem),
        plan_(make_plan()),
        a_(make(problem.m)),
        b_(make(problem.n)),
        y_({std::max<std::int64_t>(problem.batch, 1), problem.m, problem.n},
           {problem.m * ((problem.n + 7) / 8 * 8), (problem.n + 7) / 8 * 8, 1}, 0) {
    bound_.sizes = {{"M", problem.m}, {"N", problem.n}, {"K", problem.k}, {"B", problem.batch}};
    bound_.tensors.resize(plan_.graph.nodes.size());
    bound_.scalars.resize(plan_.graph.nodes.size());
    bind(step().gemm.a.value, a_);
    bind(step().gemm.b.value, b_);
    bind(step().epilogue.stores.front().value, y_);
  }

  const plan::FusedGemm& step() const { return std::get<plan::FusedGemm>(plan_.steps.front()); }
  std::optional<plan::WhyNot> why_not() const { return sm90::why_not_bound(plan_, step(), bound_); }
  sm90::Variant variant() const { return sm90::variant(plan_, step(), bound_); }

  // Every tile of both operands, if they are misaligned.
  void check() {
    sm90::Config config;
    config.tile_m = kTileM;
    config.tile_n = kTileN;
    config.stages = 3;
    const sm90::Variant which = variant();
    launch_ = sm90::launch(plan_, step(), config, which, bound_, targets::reference_gpu().limits);
    for (const TensorMapRequest& map : launch_.maps) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(map.data) % 16, 0u);
      EXPECT_EQ(map.row_stride * 2 % 16, 0);
      EXPECT_GT(map.row_stride, 0);
      EXPECT_GT(map.rows, 0);
    }
    if (!which.is_misaligned()) return;
    abi::MisalignedGemmParams params;
    ASSERT_EQ(launch_.params.size(), sizeof params);
    std::memcpy(&params, launch_.params.data(), sizeof params);
    if (which.misaligned_a) {
      check_tiles<kTileM>(a_, problem_.m, params.a, offsetof(abi::MisalignedGemmParams, a));
    }
    if (which.misaligned_b) {
      check_tiles<kTileN>(b_, problem_.n, params.b, offsetof(abi::MisalignedGemmParams, b));
    }
  }

 private:
  plan::Plan make_plan() const {
    const std::string batch = problem_.batch > 0 ? "B, " : "";
    return is_k_major_
               ? plan_of("a: bf16[" + batch + "M, K], b: bf16[" + batch + "N, K]", "matmul a, b^T")
               : plan_of("a: bf16[" + batch + "K, M], b: bf16[" + batch + "K, N]", "matmul a^T, b");
  }
  Memory make(std::int64_t mn) const {
    const std::int64_t rows = is_k_major_ ? mn : problem_.k, cols = is_k_major_ ? problem_.k : mn;
    const std::int64_t row_stride = cols + problem_.gap;
    if (problem_.batch == 0) return Memory({rows, cols}, {row_stride, 1}, problem_.offset);
    const std::int64_t matrix = (rows * row_stride + 7) / 8 * 8 + problem_.batch_gap;
    return Memory({problem_.batch, rows, cols}, {matrix, row_stride, 1}, problem_.offset);
  }
  void bind(ir::ValueId value, Memory& memory) {
    BoundTensor tensor = memory.bound();
    if (problem_.batch == 0 && tensor.layout.shape.size() == 3) {
      tensor.layout.shape.erase(tensor.layout.shape.begin());
      tensor.layout.strides.erase(tensor.layout.strides.begin());
    }
    bound_.tensors[static_cast<std::size_t>(value)] = tensor;
  }

  template <int kRows>
  void check_tiles(Memory& memory, std::int64_t size, const abi::MisalignedOperand& operand,
                   std::size_t offset) {
    if (is_k_major_) {
      check_tiles<true, kRows>(memory, size, operand, offset);
    } else {
      check_tiles<false, kRows>(memory, size, operand, offset);
    }
  }

  template <bool kIsKMajor, int kRows>
  void check_tiles(Memory& memory, std::int64_t size, const abi::MisalignedOperand& operand,
                   std::size_t offset) {
    std::map<int, const TensorMapRequest*> maps;
    for (const TensorMapRequest& map : launch_.maps) {
      if (map.offset < offset || map.offset >= offset + sizeof operand.classes) continue;
      maps[static_cast<int>((map.offset - offset) / sizeof(abi::TensorMap))] = &map;
    }
    ASSERT_EQ(maps.size(), static_cast<std::size_t>(abi::kRowClasses));
    static Tile<kIsKMajor, kRows> tile;
    for (int inner = 0; inner < std::max<std::int64_t>(problem_.batch, 1); ++inner) {
      for (int first = 0; first < size; first += kRows) {
        for (int k = 0; k < problem_.k; k += kTileK) {
          ASSERT_NO_FATAL_FAILURE(tile.load(maps, operand, first, k, inner));
          ASSERT_NO_FATAL_FAILURE(check_tile(tile, memory, size, first, k, inner));
        }
      }
    }
  }

  template <bool kIsKMajor, int kRows>
  void check_tile(const Tile<kIsKMajor, kRows>& tile, Memory& memory, std::int64_t size, int first,
                  int k, int inner) const {
    for (int mn = 0; mn < kRows; ++mn) {
      for (int depth = 0; depth < kTileK; ++depth) {
        const int in_block = mn % kBlock;
        const Element got = kIsKMajor ? tile.at(mn / kBlock, in_block, depth)
                                      : tile.at(mn / kBlock, depth, in_block);
        Element expected = 0;
        if (first + mn < size && k + depth < problem_.k) {
          Longs index = is_k_major_ ? Longs{first + mn, k + depth} : Longs{k + depth, first + mn};
          if (problem_.batch > 0) index.insert(index.begin(), inner);
          expected = memory.at(index);
        }
        ASSERT_EQ(got, expected) << "at " << first + mn << ", k " << k + depth;
      }
    }
  }

  bool is_k_major_;
  Problem problem_;
  plan::Plan plan_;
  Memory a_, b_, y_;
  Bound bound_;
  Launch launch_;
};

void check(const Problem& problem, bool misaligned = true) {
  for (const bool is_k_major : {true, false}) {
    SCOPED_TRACE(::testing::Message()
                 << problem.m << " x " << problem.n << " x " << problem.k << ", gap " << problem.gap
                 << ", offset " << problem.offset << (is_k_major ? ", K-major" : ", MN-major"));
    Operands operands(is_k_major, problem);
    EXPECT_FALSE(operands.why_not().has_value());
    EXPECT_EQ(operands.variant().is_misaligned(), misaligned);
    ASSERT_NO_FATAL_FAILURE(operands.check());
  }
}

TEST(MisalignedOperands, EveryGapAndOffsetLandsInOrder) {
  for (std::int64_t gap = 0; gap <= 8; ++gap) {
    for (std::int64_t offset = 0; offset < 8; ++offset) {
      check({72, 72, 72, gap, offset}, gap % 8 != 0 || offset != 0);
    }
  }
}

TEST(MisalignedOperands, EdgesReadAsZero) {
  for (const std::int64_t size : {1, 2, 7, 8, 9, 63, 65, 129, 201}) {
    check({size, 203 - size, 67, 3, 5});
    check({130, size, size, 2, 1});
  }
}

TEST(MisalignedOperands, SeveralTilesAndSteps) { check({300, 401, 333, 1, 3}); }

TEST(MisalignedOperands, BatchesWhoseStridesKeepTheAlignment) {
  check({70, 33, 65, 1, 3, 3});
  check({9, 130, 70, 1, 6, 2, 16});
}

TEST(MisalignedOperands, BatchesThatChangeTheAlignmentAreRefused) {
  Operands operands(true, {70, 33, 65, 1, 3, 3, 4});
  const auto no = operands.why_not();
  ASSERT_TRUE(no.has_value());
  EXPECT_EQ(no->code, "unaligned_batch");
}

TEST(MisalignedOperands, OnlyWhatIsOffIsMisaligned) {
  // K-major rows of 71 elements are off; of MN-major ones only those of b.
  const sm90::Variant both = Operands(true, {64, 63, 71, 0, 0}).variant();
  EXPECT_TRUE(both.misaligned_a && both.misaligned_b);
  const sm90::Variant one = Operands(false, {64, 63, 71, 0, 0}).variant();
  EXPECT_TRUE(!one.misaligned_a && one.misaligned_b);
  EXPECT_EQ(print(one), "b off 16-byte boundaries, results off 16-byte boundaries") << "63 columns";
  EXPECT_FALSE(Operands(true, {64, 63, 72, 0, 0}).variant().is_misaligned());
}

TEST(MisalignedOperands, OperandsThatAreNotReadAreNotMisaligned) {
  EXPECT_FALSE(Operands(true, {64, 63, 0, 1, 1}).variant().is_misaligned());
}

TEST(MisalignedOperands, ConfigsGiveStagesForStaging) {
  const Operands operands(true, {64, 63, 71, 0, 0});
  const targets::TargetInfo& target = *targets::find_target("sm_90a");
  const sm90::Variant both = operands.variant();
  int num_fitted = 0;
  for (const sm90::Config& config : sm90::configs(operands.step(), target)) {
    EXPECT_EQ(sm90::fitted(operands.step(), config, {}, target), config);
    const auto fitted = sm90::fitted(operands.step(), config, both, target);
    if (!fitted) continue;
    ++num_fitted;
    EXPECT_GE(fitted->stages, 2);
    EXPECT_LE(fitted->stages, config.stages);
    EXPECT_LE(sm90::smem_bytes(EpilogueLayout(operands.step().epilogue), *fitted, both),
              target.smem_per_block_bytes);
  }
  EXPECT_GE(num_fitted, 4);
}

TEST(HalfRows, EveryHalfOfABlockIsMovedOnce) {
  std::map<int, int> times;
  for (int round = 0; round < kRoundsOfBlock; ++round) {
    for (int lane = 0; lane < 32; ++lane) {
      const HalfRow at = half_row(round, lane);
      ++times[(8 * at.i + at.j) * 2 + at.half];
    }
  }
  EXPECT_EQ(times.size(), 128u);
  for (const auto& [half, count] : times) EXPECT_EQ(count, 1) << half;
}

// 8 lanes touch 8 different banks of 16 bytes.
TEST(HalfRows, LanesDoNotConflict) {
  for (int round = 0; round < kRoundsOfBlock; ++round) {
    for (int first = 0; first < 32; first += 8) {
      for (int c = 0; c < 4; ++c) {
        unsigned read = 0, written = 0;
        for (int lane = first; lane < first + 8; ++lane) {
          const HalfRow at = half_row(round, lane);
          const int piece = at.half * 4 + c;
          read |= 1u << ((at.i * (kStagedRowBytes / 16) + piece) & 7);
          written |= 1u << (piece ^ at.j);
        }
        EXPECT_EQ(read, 0xffu);
        EXPECT_EQ(written, 0xffu);
      }
    }
  }
}

}  // namespace
}  // namespace epifuse::codegen
