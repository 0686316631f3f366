// Cuts a matrix product into tiles, multiplies each on one thread and runs the epilogue on it.
#include "backends/cpu/tiled_gemm.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "backends/cpu/epilogue_run.h"
#include "backends/cpu/gemm_operands.h"
#include "backends/cpu/pack_blocks.h"
#include "backends/cpu/threads.h"
#include "base/ceil_div.h"
#include "base/parallel.h"

namespace epifuse::cpu {
namespace {

// How a product is cut.
struct Tiling {
  std::int64_t rows = 0, columns = 0;               // of a tile
  std::int64_t num_row_blocks = 0, num_panels = 0;  // of a batch
};

// Time of a product beside what it would be in one piece on threads that are always busy. oneDNN
// copies the panel into its own order once for each tile, which tall tiles spread over more rows;
// narrow panels load `a` more often; the last tiles leave threads idle (docs/gotchas-cpu.md).
double expected_cost(const Tiling& tiling, const GemmProblem& problem, int num_threads,
                     bool swaps) {
  const auto ratio = [](std::int64_t x, std::int64_t y) {
    return static_cast<double>(x) / static_cast<double>(y);
  };
  const double overhead = 1 + ratio(swaps ? 3 : 12, tiling.rows) + ratio(3, tiling.columns);
  const std::int64_t num_tiles = problem.num_batches * tiling.num_row_blocks * tiling.num_panels;
  const double idle = ratio(ceil_div(num_tiles, num_threads) * num_threads, num_tiles);
  const double padding = ratio(tiling.num_panels * tiling.columns, problem.n) *
                         ratio(tiling.num_row_blocks * tiling.rows, problem.m);
  return overhead * idle * padding;
}

// Panels and tiles begin at multiples of the epilogue's units, powers of 2 up to 128.
Tiling cut(const GemmProblem& problem, std::int64_t best_width, const EpilogueRun& epilogue,
           int num_threads, bool swaps) {
  constexpr std::int64_t kMaxTileFloats = 96 * 1024;  // tile and panel share the second cache
  constexpr std::int64_t kMinRows = 64, kMaxRows = 384, kMostCuts = 8;
  const std::int64_t unit = epilogue.column_unit(), rows = std::max(kLanes, epilogue.row_unit());
  const std::int64_t max_columns = std::min(best_width, epilogue.most_columns());
  Tiling best;
  if (problem.m == 0 || problem.n == 0) return best;
  double best_cost = std::numeric_limits<double>::infinity();
  for (const std::int64_t columns : {384, 256, 192, 128, 96, 64}) {
    Tiling tiling;
    if (columns % unit != 0) continue;
    tiling.columns = std::min({columns, std::max(max_columns, unit) / unit * unit, problem.n});
    tiling.num_panels = ceil_div(problem.n, tiling.columns);
    const auto num_products = static_cast<std::int64_t>(problem.b.size());
    const std::int64_t most_rows =
        std::min(kMaxRows, kMaxTileFloats / num_products / tiling.columns);
    const std::int64_t fewest = ceil_div(problem.m, most_rows);
    const std::int64_t most = std::min(ceil_div(problem.m, kMinRows), fewest + kMostCuts);
    for (std::int64_t blocks = fewest; blocks <= std::max(fewest, most); ++blocks) {
      tiling.rows = std::min(problem.m, round_up(ceil_div(problem.m, blocks), rows));
      tiling.num_row_blocks = ceil_div(problem.m, tiling.rows);
      const double cost = expected_cost(tiling, problem, num_threads, swaps);
      if (cost >= best_cost) continue;
      best_cost = cost;
      best = tiling;
    }
  }
  return best;
}

// Products of so few rows read b once and are sums of it: as fast as memory is. With 16-bit
// operands oneDNN's instructions for them are ahead from the second row on (docs/gotchas-cpu.md).
std::int64_t most_rows_of_dots(DType compute) { return compute == DType::f32 ? 3 : 1; }

// Whether to compute c^T = b * a^T: rows of b are read where they lie, a is packed into blocks,
// once for all panels, and tiles of c are turned round in cache. Without it oneDNN copies b, which
// takes long beside a product of few rows. It loses when blocks of a leave the cache or are mostly
// padding.
bool suits_swapping(const GemmProblem& problem, DType compute) {
  constexpr std::int64_t kMostRows = 256;
  // Float32 products are slow enough to wait for blocks from farther away.
  const std::int64_t max_elements = std::int64_t{compute == DType::f32 ? 2 : 1} << 20;
  const std::int64_t padded = round_up(problem.m, block_width(problem.m));
  const bool fits = padded * problem.k <= max_elements;
  const bool is_filled = problem.m <= kBlockWidth || padded * 10 <= problem.m * 11;
  return problem.m > most_rows_of_dots(compute) && problem.m <= kMostRows && problem.k > 0 &&
         fits && is_filled && has_dense_rows(problem, compute);
}

// Sums of so many products of i8 are exact in float32: they are at most 2^24.
constexpr std::int64_t kExactDepth = 1024;

// Whether K is cut into slices, the sums of which are added as integers.
bool cuts_k(const GemmProblem& problem) {
  return problem.a.dtype == DType::i8 && problem.k > kExactDepth;
}

// One run of a fused product.
class TiledGemm {
 public:
  // `in_blocks`: operands may be given to oneDNN in blocks.
  TiledGemm(const GemmProblem& problem, DType compute, bool in_blocks, EpilogueRun& epilogue,
            BufferPool& pool)
      : problem_(problem),
        compute_(compute),
        epilogue_(epilogue),
        pool_(pool),
        in_slices_(cuts_k(problem)),
        swaps_(in_blocks && !in_slices_ && suits_swapping(problem, compute)),
        panels_(panels_of(problem, compute, in_blocks && !swaps_ && !in_slices_ && problem.k > 0)),
        dots_(!in_slices_ && problem.m <= most_rows_of_dots(compute) && are_k_major(panels_)),
        rows_(problem, dots_ ? DType::f32 : compute, pool),
        tiling_(cut(problem, best_width(panels_), epilogue, threads_of_tiling(epilogue), swaps_)),
        matmuls_(panels_.size()) {
    if (!epilogue_.has_reductions()) return;  // groups share the epilogue, in several threads
    epilogue_.set_tiling(tiling_.num_row_blocks, tiling_.columns, pool);
  }

  // For the inner tiles, and those at the lower and right edges; false when oneDNN lacks one.
  bool make_matmuls(MatmulCache& matmuls) {
    if (problem_.k == 0 || tiling_.num_panels == 0 || dots_) return true;
    for (const bool last_block : {false, true}) {
      for (const bool last_panel : {false, true}) {
        const std::int64_t m = last_block ? rows_of(tiling_.num_row_blocks - 1) : tiling_.rows;
        const std::int64_t n = last_panel ? columns_of(tiling_.num_panels - 1) : tiling_.columns;
        for (std::size_t product = 0; product < panels_.size(); ++product) {
          for (int slice = in_slices_ ? 0 : 1; slice <= 1; ++slice) {  // 1: the last one
            const auto matmul = matmuls.get(matmul_type(product, m, n, slice == 1));
            if (!matmul) return false;
            scratch_bytes_ = std::max(scratch_bytes_, matmul->scratch_bytes());
            matmuls_[product][which(last_block, last_panel, slice == 1)] = matmul;
          }
        }
      }
    }
    return true;
  }

  void run() {
    const std::int64_t num_panels = tiling_.num_panels * problem_.num_batches;
    const int num_workers = workers_for(nanoseconds());
    // A packed panel serves all its row blocks when there are panels enough to share.
    blocks_per_unit_ =
        pack(panels_) && !dots_ && num_panels >= 4 * num_workers ? tiling_.num_row_blocks : 1;
    if (swaps_ && num_panels > 0) {
      blocks_of_a_ = BlocksOfA(problem_, compute_, rows_, tiling_.rows, pool_);
    }
    std::vector<Worker> workers(static_cast<std::size_t>(num_workers));
    run_units(blocks_per_unit_ == 0 ? 0 : num_panels * tiling_.num_row_blocks / blocks_per_unit_,
              num_workers, [&](std::int64_t unit, int worker) {
                run_unit(unit, workers[static_cast<std::size_t>(worker)]);
              });
    epilogue_.finish();
  }

 private:
  static constexpr std::size_t kWays = 8;  // of which()

  // Scratch of one thread.
  struct Worker {
    struct Product {
      BufferPool::Buffer accumulator, swapped, panel, sums;
      const char* b = nullptr;
      std::array<std::optional<MatmulCall>, kWays> calls;
    };
    EpilogueRun::Worker epilogue;
    std::vector<Product> products;
    BufferPool::Buffer scratch;
    std::int64_t panel_index = -1;
  };
  using Panels = std::vector<PanelsOfB>;  // of each product

  static Panels panels_of(const GemmProblem& problem, DType compute, bool reads_blocks) {
    Panels panels;
    for (std::size_t i = 0; i < problem.b.size(); ++i) {
      panels.emplace_back(problem, i, compute, reads_blocks);
    }
    return panels;
  }
  static bool pack(const Panels& panels) {
    return std::any_of(panels.begin(), panels.end(), std::mem_fn(&PanelsOfB::packs));
  }
  static bool are_k_major(const Panels& panels) {
    return std::all_of(panels.begin(), panels.end(), std::mem_fn(&PanelsOfB::is_k_major));
  }
  static std::int64_t best_width(const Panels& panels) {
    std::int64_t width = panels.front().best_width();
    for (const PanelsOfB& each : panels) width = std::min(width, each.best_width());
    return width;
  }

  // Rough time on one core: it only decides how many threads are worth waking.
  double nanoseconds() const {
    constexpr double kFlopPerNanosecond = 200, kBytesPerNanosecond = 20;
    const auto rows = static_cast<double>(problem_.num_batches * problem_.m);
    const auto n = static_cast<double>(problem_.n) * static_cast<double>(panels_.size());
    const auto k = static_cast<double>(problem_.k);
    const double bytes = (rows * k + n * k) * static_cast<double>(size_bytes(compute_));
    return 2 * rows * n * (k + 50) / kFlopPerNanosecond + bytes / kBytesPerNanosecond;
  }

  std::int64_t rows_of(std::int64_t block) const {
    return std::min(tiling_.rows, problem_.m - block * tiling_.rows);
  }
  std::int64_t columns_of(std::int64_t panel) const {
    return std::min(tiling_.columns, problem_.n - panel * tiling_.columns);
  }
  static std::size_t which(bool last_block, bool last_panel, bool last_slice) {
    return (last_block ? 1u : 0u) + (last_panel ? 2u : 0u) + (last_slice ? 4u : 0u);
  }
  // The size of K of a call. Without slices all of it is the last one.
  std::int64_t depth_of(bool last_slice) const {
    if (!in_slices_) return padded_k(compute_, problem_.k);
    return last_slice ? (problem_.k - 1) % kExactDepth + 1 : kExactDepth;
  }

  // A reduction has the same bits only in the same tiles: those must not depend on the machine's
  // threads. With AVX-512 an element of a float32 product has the
  // same bits in any tile, with AVX2 it need not.
  static int threads_of_tiling(const EpilogueRun& epilogue) {
    constexpr int kFixed = 8;
    return epilogue.has_reductions() ? kFixed : threads_here();
  }

  MatmulType matmul_type(std::size_t product, std::int64_t m, std::int64_t n,
                         bool last_slice) const {
    const std::int64_t k = depth_of(last_slice);
    if (swaps_) {
      return {{compute_, {n, k}, {k, 1}},
              {compute_, {k, m}, {}, block_width(m)},
              {DType::f32, {n, m}, {m, 1}}};
    }
    MatrixType b = panels_[product].type(n);
    b.shape.front() = k;
    return {{compute_, {m, k}, {padded_k(compute_, problem_.k), 1}},
            std::move(b),
            {DType::f32, {m, n}, {n, 1}}};
  }

  void start_worker(Worker& worker) {
    const auto tile_floats = static_cast<std::size_t>(tiling_.rows * tiling_.columns + kLanes);
    for (const PanelsOfB& panels : panels_) {
      Worker::Product& product = worker.products.emplace_back();
      product.accumulator = pool_.borrow(tile_floats * sizeof(float));
      std::fill_n(product.accumulator.floats(), tile_floats, 0.0f);
      if (dots_) continue;
      if (swaps_) product.swapped = pool_.borrow(tile_floats * sizeof(float));
      if (in_slices_) product.sums = pool_.borrow(tile_floats * sizeof(std::int32_t));
      product.panel = pool_.borrow(panels.scratch_bytes(tiling_.columns));
    }
    if (!dots_) worker.scratch = pool_.borrow(scratch_bytes_);
  }

  void run_unit(std::int64_t unit, Worker& worker) {
    if (worker.products.empty()) start_worker(worker);
    const std::int64_t first = unit * blocks_per_unit_;
    const std::int64_t panel_index = first / tiling_.num_row_blocks;
    const std::int64_t batch = panel_index / tiling_.num_panels;
    const std::int64_t panel = panel_index % tiling_.num_panels;
    if (problem_.k > 0 && !dots_ && panel_index != worker.panel_index) {
      for (std::size_t i = 0; i < panels_.size(); ++i) {
        Worker::Product& product = worker.products[i];
        product.b = panels_[i].get(batch, panel * tiling_.columns, columns_of(panel),
                                   reinterpret_cast<char*>(product.panel.data()));
      }
      worker.panel_index = panel_index;
    }
    for (std::int64_t i = 0; i < blocks_per_unit_; ++i) {
      run_tile(batch, (first + i) % tiling_.num_row_blocks, panel, worker);
    }
  }

  void run_tile(std::int64_t batch, std::int64_t block, std::int64_t panel, Worker& worker) {
    Tile tile;
    tile.first_row = problem_.first_row + batch * problem_.m + block * tiling_.rows;
    tile.num_rows = std::min(rows_of(block), problem_.num_rows - block * tiling_.rows);
    if (tile.num_rows <= 0) return;  // padding alone
    tile.first_column = panel * tiling_.columns;
    tile.num_columns = columns_of(panel);
    tile.row_block = batch * tiling_.num_row_blocks + block;
    for (std::size_t i = 0; i < panels_.size(); ++i) {
      tile.accumulators[i] = worker.products[i].accumulator.floats();
      if (dots_) {
        multiply_by_dots(batch, panel, panels_[i], worker.products[i]);
      } else if (in_slices_) {
        multiply_slices(batch, block, panel, i, worker);
      } else if (problem_.k > 0) {
        multiply(batch, block, panel, i, worker);
      }
    }
    if (swaps_ && problem_.k > 0) return run_swapped(tile, rows_of(block), worker);
    epilogue_.run(tile, worker.epilogue, pool_);
  }

  void multiply(std::int64_t batch, std::int64_t block, std::int64_t panel,
                std::size_t which_product, Worker& worker) {
    Worker::Product& product = worker.products[which_product];
    MatmulCall& call = call_of(block, panel, which_product, true, worker);
    void* const scratch = worker.scratch.data();
    if (swaps_) {
      call.run(product.b, blocks_of_a_.at(batch, block), product.swapped.data(), scratch);
    } else {
      call.run(rows_.at(batch, block * tiling_.rows), product.b, product.accumulator.data(),
               scratch);
    }
  }

  MatmulCall& call_of(std::int64_t block, std::int64_t panel, std::size_t which_product,
                      bool last_slice, Worker& worker) const {
    const std::size_t edge =
        which(block == tiling_.num_row_blocks - 1, panel == tiling_.num_panels - 1, last_slice);
    auto& call = worker.products[which_product].calls[edge];
    return call ? *call : call.emplace(matmuls_[which_product][edge]);
  }

  // Each slice's sums are integers in float32.
  void multiply_slices(std::int64_t batch, std::int64_t block, std::int64_t panel,
                       std::size_t which_product, Worker& worker) {
    Worker::Product& product = worker.products[which_product];
    const std::int64_t count = rows_of(block) * columns_of(panel);
    const std::int64_t b_step = panels_[which_product].type(columns_of(panel)).strides.front();
    constexpr std::int64_t kBytes = sizeof(float);
    const char* const a = rows_.at(batch, block * tiling_.rows);
    float* const tile = product.accumulator.floats();
    auto* const sums = reinterpret_cast<std::int32_t*>(product.sums.data());
    std::fill_n(sums, count, 0);
    for (std::int64_t k = 0; k < problem_.k; k += kExactDepth) {
      const bool is_last = k + kExactDepth >= problem_.k;
      MatmulCall& call = call_of(block, panel, which_product, is_last, worker);
      call.run(a + k * kBytes, product.b + k * b_step * kBytes, tile, worker.scratch.data());
      for (std::int64_t i = 0; i < count; ++i) sums[i] += static_cast<std::int32_t>(tile[i]);
    }
    for (std::int64_t i = 0; i < count; ++i) tile[i] = static_cast<float>(sums[i]);
  }

  // Some rows of the tile at a time change places with its columns, and stay in the first cache.
  // A reduction wants its tile whole, and so do squares.
  void run_swapped(const Tile& tile, std::int64_t num_computed_rows, Worker& worker) {
    constexpr std::int64_t kRows = 32;
    const std::int64_t step = epilogue_.wants_whole_tiles() ? tile.num_rows : kRows;
    for (std::int64_t row = 0; row < tile.num_rows; row += step) {
      Tile slice = tile;
      slice.first_row += row;
      slice.num_rows = std::min(step, tile.num_rows - row);
      for (const Worker::Product& product : worker.products) {
        transpose(product.swapped.floats() + row, num_computed_rows, slice.num_rows,
                  slice.num_columns, product.accumulator.floats());
      }
      epilogue_.run(slice, worker.epilogue, pool_);
    }
  }

  // With few rows the weights are read once and used a few times: oneDNN's copy of them would take
  // longer than the products.
  void multiply_by_dots(std::int64_t batch, std::int64_t panel, const PanelsOfB& panels,
                        Worker::Product& product) {
    const Matrix b = panels.panel(batch, panel * tiling_.columns, columns_of(panel));
    const auto dots = best_strips().dots[static_cast<std::size_t>(b.dtype)];
    constexpr std::int64_t kRowsInCache = 4;  // rows of b that all rows of a use in turn
    for (std::int64_t row = 0; row < b.num_rows; row += kRowsInCache) {
      for (std::int64_t m = 0; m < problem_.m; ++m) {
        dots(product.accumulator.floats() + m * b.num_rows + row,
             reinterpret_cast<const float*>(rows_.at(batch, m)), b.at(row, 0), b.row_stride,
             std::min(kRowsInCache, b.num_rows - row), problem_.k);
      }
    }
  }

  const GemmProblem& problem_;
  DType compute_;
  EpilogueRun& epilogue_;
  BufferPool& pool_;
  bool in_slices_, swaps_;
  Panels panels_;
  bool dots_;
  RowsOfA rows_;
  BlocksOfA blocks_of_a_;
  Tiling tiling_;
  std::int64_t blocks_per_unit_ = 1;
  std::size_t scratch_bytes_ = 0;
  std::vector<std::array<std::shared_ptr<const Matmul>, kWays>> matmuls_;  // of each product
};

}  // namespace

bool multiply(const GemmProblem& problem, DType compute, bool in_blocks, EpilogueRun& epilogue,
              MatmulCache& matmuls, BufferPool& pool) {
  TiledGemm product(problem, compute, in_blocks, epilogue, pool);
  if (!product.make_matmuls(matmuls)) return false;
  product.run();
  return true;
}

}  // namespace epifuse::cpu
