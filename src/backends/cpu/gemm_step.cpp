// Cuts a matrix product into tiles, multiplies each on one thread and runs the epilogue on it.
#include "backends/cpu/gemm_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "backends/cpu/bare_gemm.h"
#include "backends/cpu/epilogue_run.h"
#include "backends/cpu/gemm_operands.h"
#include "backends/cpu/threads.h"
#include "epifuse/error.h"

namespace epifuse::cpu {
namespace {

std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }
std::int64_t round_up(std::int64_t x, std::int64_t unit) { return ceil_div(x, unit) * unit; }

// How a product is cut. It depends on the problem alone, so that results do not depend on threads.
struct Tiling {
  std::int64_t rows = 0, columns = 0;               // of a tile
  std::int64_t num_row_blocks = 0, num_panels = 0;  // of a batch
};

// Tall tiles: oneDNN copies the panel into its own order once for each tile. Few tiles are made
// smaller, as long as that copy stays cheap, to give every thread something to do.
Tiling cut(const GemmProblem& problem, std::int64_t width) {
  constexpr std::int64_t kMaxRows = 640, kMinRows = 64, kMinColumns = 64, kFewTiles = 8;
  Tiling tiling;
  if (problem.m == 0 || problem.n == 0) return tiling;
  const std::int64_t num_panels = ceil_div(problem.n, width) * problem.num_batches;
  tiling.columns = std::min(problem.n, width);
  if (num_panels < kFewTiles) {
    const std::int64_t even = round_up(ceil_div(problem.n, kFewTiles), kLanes);
    tiling.columns = std::min(tiling.columns, std::max(even, kMinColumns));
  }
  tiling.num_panels = ceil_div(problem.n, tiling.columns);
  const std::int64_t num_tiles = tiling.num_panels * problem.num_batches;
  std::int64_t num_row_blocks = ceil_div(problem.m, kMaxRows);
  if (num_tiles * num_row_blocks < kFewTiles) {
    const std::int64_t most = std::max<std::int64_t>(problem.m / kMinRows, 1);
    num_row_blocks = std::min(most, ceil_div(kFewTiles, num_tiles));
  }
  tiling.rows = std::min(problem.m, round_up(ceil_div(problem.m, num_row_blocks), kLanes));
  tiling.num_row_blocks = ceil_div(problem.m, tiling.rows);
  return tiling;
}

// One run of a fused product.
class TiledGemm {
 public:
  TiledGemm(const GemmProblem& problem, DType compute, EpilogueRun& epilogue, MatmulCache& matmuls,
            BufferPool& pool)
      : problem_(problem),
        compute_(compute),
        epilogue_(epilogue),
        pool_(pool),
        panels_(problem, compute),
        rows_(problem, compute, pool),
        tiling_(cut(problem, panels_.best_width())) {
    epilogue_.set_tiling(tiling_.num_row_blocks, tiling_.columns, pool);
    if (problem_.k > 0 && tiling_.num_panels > 0) make_matmuls(matmuls);
  }

  void run() {
    const std::int64_t num_panels = tiling_.num_panels * problem_.num_batches;
    const int num_threads = workers_for(nanoseconds());
    // A packed panel serves all its row blocks when there are panels enough to share.
    blocks_per_unit_ =
        panels_.packs() && num_panels >= 4 * num_threads ? tiling_.num_row_blocks : 1;
    std::vector<Worker> workers(static_cast<std::size_t>(num_threads));
    run_units(blocks_per_unit_ == 0 ? 0 : num_panels * tiling_.num_row_blocks / blocks_per_unit_,
              num_threads, [&](std::int64_t unit, int worker) {
                run_unit(unit, workers[static_cast<std::size_t>(worker)]);
              });
    epilogue_.finish();
  }

 private:
  // Scratch of one thread.
  struct Worker {
    EpilogueRun::Worker epilogue;
    BufferPool::Buffer accumulator, panel, scratch;
    const char* b = nullptr;
    std::int64_t panel_index = -1;
    std::array<std::optional<MatmulCall>, 4> calls;
  };

  double nanoseconds() const {
    constexpr double kFlopPerNanosecond = 200;
    return 2.0 * static_cast<double>(problem_.num_batches * problem_.m) *
           static_cast<double>(problem_.n) * static_cast<double>(problem_.k + 50) /
           kFlopPerNanosecond;
  }

  std::int64_t rows_of(std::int64_t block) const {
    return std::min(tiling_.rows, problem_.m - block * tiling_.rows);
  }
  std::int64_t columns_of(std::int64_t panel) const {
    return std::min(tiling_.columns, problem_.n - panel * tiling_.columns);
  }
  static std::size_t which(bool last_block, bool last_panel) {
    return (last_block ? 1u : 0u) + (last_panel ? 2u : 0u);
  }

  // Inner tiles, and those at the lower and right edges.
  void make_matmuls(MatmulCache& matmuls) {
    for (const bool last_block : {false, true}) {
      for (const bool last_panel : {false, true}) {
        const std::int64_t m = last_block ? rows_of(tiling_.num_row_blocks - 1) : tiling_.rows;
        const std::int64_t n = last_panel ? columns_of(tiling_.num_panels - 1) : tiling_.columns;
        const MatmulType type{{compute_, {m, problem_.k}, {problem_.k, 1}},
                              panels_.type(n),
                              {DType::f32, {m, n}, {n, 1}},
                              1};
        const auto matmul = matmuls.get(type);
        if (!matmul) throw UnavailableError("oneDNN cannot multiply float32 matrices here");
        scratch_bytes_ = std::max(scratch_bytes_, matmul->scratch_bytes());
        matmuls_[which(last_block, last_panel)] = matmul;
      }
    }
  }

  void start_worker(Worker& worker) {
    const auto tile_floats = static_cast<std::size_t>(tiling_.rows * tiling_.columns + kLanes);
    worker.accumulator = pool_.borrow(tile_floats * sizeof(float));
    std::fill_n(worker.accumulator.floats(), tile_floats, 0.0f);
    worker.panel = pool_.borrow(panels_.scratch_bytes(tiling_.columns));
    worker.scratch = pool_.borrow(scratch_bytes_);
  }

  void run_unit(std::int64_t unit, Worker& worker) {
    if (worker.accumulator.data() == nullptr) start_worker(worker);
    const std::int64_t first = unit * blocks_per_unit_;
    const std::int64_t panel_index = first / tiling_.num_row_blocks;
    const std::int64_t batch = panel_index / tiling_.num_panels;
    const std::int64_t panel = panel_index % tiling_.num_panels;
    if (problem_.k > 0 && panel_index != worker.panel_index) {
      worker.b = panels_.get(batch, panel * tiling_.columns, columns_of(panel),
                             reinterpret_cast<char*>(worker.panel.data()));
      worker.panel_index = panel_index;
    }
    for (std::int64_t i = 0; i < blocks_per_unit_; ++i) {
      run_tile(batch, (first + i) % tiling_.num_row_blocks, panel, worker);
    }
  }

  void run_tile(std::int64_t batch, std::int64_t block, std::int64_t panel, Worker& worker) {
    const std::int64_t first_row = block * tiling_.rows;
    if (problem_.k > 0) {
      const std::size_t edge =
          which(block == tiling_.num_row_blocks - 1, panel == tiling_.num_panels - 1);
      std::optional<MatmulCall>& call = worker.calls[edge];
      if (!call) call.emplace(matmuls_[edge]);
      call->run(rows_.at(batch, first_row), worker.b, worker.accumulator.data(),
                worker.scratch.data());
    }
    Tile tile;
    tile.first_row = batch * problem_.m + first_row;
    tile.num_rows = rows_of(block);
    tile.first_column = panel * tiling_.columns;
    tile.num_columns = columns_of(panel);
    tile.row_block = batch * tiling_.num_row_blocks + block;
    tile.accumulator = worker.accumulator.floats();
    epilogue_.run(tile, worker.epilogue, pool_);
  }

  const GemmProblem& problem_;
  DType compute_;
  EpilogueRun& epilogue_;
  BufferPool& pool_;
  PanelsOfB panels_;
  RowsOfA rows_;
  Tiling tiling_;
  std::int64_t blocks_per_unit_ = 1;
  std::size_t scratch_bytes_ = 0;
  std::array<std::shared_ptr<const Matmul>, 4> matmuls_;
};

DType compute_dtype(const plan::GemmDesc& gemm, MatmulCache& matmuls) {
  const bool is_native = gemm.a.dtype == gemm.b.dtype && matmuls.is_native(gemm.a.dtype);
  return is_native ? gemm.a.dtype : DType::f32;
}

}  // namespace

void run_gemm(const plan::Plan& plan, const plan::FusedGemm& step, const EpilogueProgram& program,
              const codegen::Bound& bound, MatmulCache& matmuls, BufferPool& pool) {
  const GemmProblem problem = make_problem(plan, step.gemm, bound, reduces_columns(step.epilogue));
  if (is_bare(step) && run_bare_gemm(problem, step, bound, matmuls, pool)) return;
  EpilogueRun epilogue(step.epilogue, program, bound, problem.shape,
                       problem.merged ? Merge::batches : Merge::none);
  TiledGemm(problem, compute_dtype(step.gemm, matmuls), epilogue, matmuls, pool).run();
}

std::string describe_gemm(const plan::FusedGemm& step, MatmulCache& matmuls) {
  const DType compute = compute_dtype(step.gemm, matmuls);
  if (is_bare(step)) return fmt::format("oneDNN {} matmul of the whole product", name(compute));
  std::string text = fmt::format(
      "oneDNN {} matmul of panels of 128 columns, epilogue on each tile "
      "while it is in cache ({})",
      name(compute), best_strips().name);
  if (compute != step.gemm.a.dtype)
    text += fmt::format("; {} operands are widened", name(step.gemm.a.dtype));
  return text;
}

}  // namespace epifuse::cpu
