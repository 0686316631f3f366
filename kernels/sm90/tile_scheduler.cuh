// Which tile comes next, and where a warpgroup is in the ring of stages.
#pragma once

#include "kernels/sm90/groups.cuh"
#include "kernels/sm90/k_groups.cuh"
#include "kernels/sm90/pointer_arrays.cuh"
#include "kernels/sm90/policies.cuh"
#include "kernels/sm90/primitives.cuh"
#include "kernels/sm90/side_by_side.cuh"

namespace epifuse::sm90 {

template <class Config>
constexpr int kClusterSize =
    Config::Producer::kClusterM* Config::Producer::kClusterN* Config::Consumers::kSplitK;

// This CTA's place in its cluster.
template <class Config>
__device__ __forceinline__ int cluster_rank() {
  return kClusterSize<Config> > 1 ? static_cast<int>(cute::block_rank_in_cluster()) : 0;
}

// Walks the tiles a consumer or the producer owns: static round robin, p.raster tiles along m side
// by side so that they share columns of B in L2.
//
// Two widths even out the last wave: the host cuts n into p.columns columns such that tiles fill
// whole waves; some are 8 narrower, side by side, and others from one band of rows to the next, so
// that every CTA gets its share of both.
template <class Config, bool = Config::Scheduler::kOwnParams>
struct TileScheduler {
  using Scheduler = typename Config::Scheduler;
  using Producer = typename Config::Producer;
  int m = 0, n = 0;     // first row and column of the current tile
  int tile_column = 0;  // its number, where tiles have two widths
  Batch batch;
  bool is_narrow = false;
  GroupScheduler<Config> group;
  GroupOfK part;  // of K, where groups cut it

  static constexpr int kRows = Config::kTileM * Producer::kClusterM;
  static constexpr int kColumns = kResultColumns<Config> * Producer::kClusterN;

  static __device__ __forceinline__ int first() {
    return static_cast<int>(blockIdx.x) / kClusterSize<Config>;
  }
  static __device__ __forceinline__ int step() {
    return static_cast<int>(gridDim.x) / kClusterSize<Config>;
  }

  static __device__ __forceinline__ int rows_of_tiles(const abi::GemmParams& p) {
    return (p.m + kRows - 1) / kRows;
  }
  static __device__ __forceinline__ int columns_of_tiles(const abi::GemmParams& p) {
    return Scheduler::kTwoWidths ? p.columns : (p.n + kColumns - 1) / kColumns;
  }
  // To the tile of that number, or where grouped to the first one of that place: false when there
  // is none. `kSoon`: without a division in the first band; such branches take registers that
  // consumers do not have.
  template <bool kSoon = false>
  __device__ __forceinline__ bool go(const abi::GemmParams& p, int tile) {
    int tiles_m = rows_of_tiles(p);
    const int tiles_n = columns_of_tiles(p);
    if constexpr (Scheduler::kGrouped) {
      if (!group.find(p, tile, kRows, tiles_n)) return false;
      tiles_m = group.tiles(p, kRows);
      tile -= group.first_place;
      batch.inner = group.group;
      group.is_short = tile >= tiles_m * tiles_n;
      if (group.is_short) {
        const int column = 2 * (tile - tiles_m * tiles_n);
        group.is_first_of_pair = column + 1 < tiles_n;
        m = group.first_row + tiles_m * kRows;
        n = column * kColumns;
        return true;
      }
    } else if constexpr (Scheduler::kBatched) {
      const int product = fast_divide(tile, static_cast<float>(tiles_m * tiles_n));
      if (product >= p.batch) return false;
      tile -= product * tiles_m * tiles_n;
      batch.outer = fast_divide(product, static_cast<float>(p.batch_inner));
      batch.inner = product - batch.outer * p.batch_inner;
      if constexpr (Scheduler::kKGrouped) part.find(p, product);
    } else if (tile >= tiles_m * tiles_n) {
      return false;
    }
    const int per_band = p.raster * tiles_n;
    int band = 0;
    if (!kSoon || tile >= per_band) band = fast_divide(tile, static_cast<float>(per_band));
    const int height = min(tiles_m - band * p.raster, p.raster);
    const int in_band = tile - band * per_band;
    const int column = fast_divide(in_band, static_cast<float>(height));
    m = (band * p.raster + in_band - column * height) * kRows;
    if constexpr (Scheduler::kGrouped) m += group.first_row;
    n = column * kColumns;
    if constexpr (kClusterSize < Config >> 1 && Config::Consumers::kSplitK == 1) {
      const int rank = cluster_rank<Config>();
      m += rank % Producer::kClusterM * Config::kTileM;
      n += rank / Producer::kClusterM * kResultColumns<Config>;
    }
    if constexpr (Scheduler::kTwoWidths) {
      tile_column = column;
      narrow<kSoon>(p, band, tiles_n);
    }
    return true;
  }

  // To the CTA's next tile after that of number `tile`.
  __device__ __forceinline__ bool advance(const abi::GemmParams& p, int& tile) {
    if constexpr (Scheduler::kGrouped) {
      if (group.is_first_of_pair) {
        group.is_first_of_pair = false;
        n += kColumns;
        return true;
      }
    }
    return go(p, tile += step());
  }

 private:
  // Narrow are num_narrow columns side by side, those of a band from where those of the band before
  // end: a CTA's tiles are evenly spaced, so it meets as many of them as any other. None where they
  // would not add up to n.
  template <bool kSoon>
  __device__ __forceinline__ void narrow(const abi::GemmParams& p, int band, int columns) {
    const int excess = columns * kResultColumns<Config> - p.n;
    const int num_narrow = p.n % 8 == 0 && excess <= 8 * columns ? excess / 8 : 0;
    int first = band * num_narrow;
    if (!kSoon || band > 0) {
      first -= fast_divide(first, static_cast<float>(columns)) * columns;
    }
    const int wrapped = max(first + num_narrow - columns, 0);  // those at the band's start
    const int past = tile_column - first;
    n -= 8 * (min(tile_column, wrapped) + min(max(past, 0), num_narrow));
    is_narrow = tile_column < wrapped || (past >= 0 && past < num_narrow);
  }
};

// Which problem a tile belongs to, of those of an array or side by side.
template <bool kPointerArrays>
struct ProblemFinder : PartScheduler {};
template <>
struct ProblemFinder<true> : ProblemScheduler {};

// Of many problems: those of one, then of the next.
template <class Config>
struct TileScheduler<Config, true> : TileScheduler<Config, false> {
  ProblemFinder<Config::Scheduler::kPointerArrays> problem;

  template <bool kSoon = false>
  __device__ __forceinline__ bool go(const abi::GemmParams& all, int tile) {
    if (!problem.find(all, tile)) return false;
    return TileScheduler<Config, false>::go(*problem.params, tile - problem.first_tile);
  }
};

// Of the problem that a tile scheduler is at; those of all of them where there is one.
template <class Config>
__device__ __forceinline__ const abi::GemmParams& params_of(
    const abi::GemmParams& all, const TileScheduler<Config>& scheduler) {
  if constexpr (Config::Scheduler::kOwnParams) {
    return *scheduler.problem.params;
  } else {
    return all;
  }
}

// The same, kept from one tile to the next by who has no tile scheduler at hand.
template <class Config, bool = Config::Scheduler::kOwnParams>
class ParamsOfTile {
 public:
  __device__ __forceinline__ explicit ParamsOfTile(const abi::GemmParams& p) : p_(p) {}
  __device__ __forceinline__ void find(const TileScheduler<Config>&) {}
  __device__ __forceinline__ const abi::GemmParams& get() const { return p_; }

 private:
  const abi::GemmParams& p_;
};
template <class Config>
class ParamsOfTile<Config, true> {
 public:
  __device__ __forceinline__ explicit ParamsOfTile(const abi::GemmParams& p) : p_(&p) {}
  __device__ __forceinline__ void find(const TileScheduler<Config>& tile) {
    p_ = tile.problem.params;
  }
  __device__ __forceinline__ const abi::GemmParams& get() const { return *p_; }

 private:
  const abi::GemmParams* p_;
};

// The steps of K that this CTA multiplies of a tile: at least one, past the end if need be, where
// TMA reads zeros.
struct Steps {
  int first, count;
};

template <class Config>
__device__ __forceinline__ Steps steps_of(const abi::GemmParams& p) {
  const int all = (p.k + Config::kTileK - 1) / Config::kTileK;
  if constexpr (Config::Consumers::kSplitK == 1) {
    return {0, max(all, 1)};
  } else {
    const int each = (all + Config::Consumers::kSplitK - 1) / Config::Consumers::kSplitK;
    const int first = cluster_rank<Config>() * each;
    return {first, max(min(all - first, each), 1)};
  }
}

// The same of the tile that a tile scheduler is at.
template <class Config>
__device__ __forceinline__ Steps steps_of(const abi::GemmParams& all,
                                          const TileScheduler<Config>& tile) {
  if constexpr (Config::Scheduler::kKGrouped) {
    return {0, tile.part.template steps<Config::kTileK>()};
  } else {
    return steps_of<Config>(params_of<Config>(all, tile));
  }
}

// The chunks of a consumer's part of a tile: those of a block of 64 rows, then of the next. Where a
// cluster splits K, its CTAs take turns at them.
template <class Config>
constexpr int kConsumersOfTile = Config::Consumers::kCooperative ? Config::Consumers::kCount : 1;
template <class Config>
constexpr int kRowsOfConsumer = Config::kTileM / kConsumersOfTile<Config>;
template <class Config>
constexpr int kChunksAcross = (kResultColumns<Config> + kChunkColumns - 1) / kChunkColumns;
template <class Config>
constexpr int kChunksOfConsumer = kRowsOfConsumer<Config> / kBlockRows* kChunksAcross<Config>;

// The tiles of a consumer, of which ping-pong consumers take turns.
template <class Config, bool = Config::Scheduler::kGrouped>
struct ConsumerScheduler : TileScheduler<Config> {
  using Consumers = typename Config::Consumers;
  using Scheduler = typename Config::Scheduler;
  int number = 0;         // of the tile
  int steps_between = 0;  // where steps vary: those of the other consumer's tile before this one

  // False when there is nothing to do.
  __device__ __forceinline__ bool begin(const abi::GemmParams& p, int consumer) {
    number = this->first() + (Consumers::kCooperative ? 0 : consumer * this->step());
    if (consumer > 0) pass_over(p);
    return this->go(p, number);
  }
  __device__ __forceinline__ bool next(const abi::GemmParams& p) {
    number += (Consumers::kCooperative ? 1 : 2) * this->step();
    pass_over(p);
    return this->go(p, number);
  }

 private:
  // Looks at the tile before, of the other one of ping-pong consumers, for how long it takes.
  __device__ __forceinline__ void pass_over(const abi::GemmParams& p) {
    if constexpr (Scheduler::kStepsVary && !Consumers::kCooperative) {
      const bool exists = this->go(p, number - this->step());
      steps_between = exists ? steps_of<Config>(p, *this).count : 0;
      if constexpr (Scheduler::kKGrouped) steps_between = same(steps_between);
    }
  }
};

template <class Config>
__device__ __forceinline__ int first_chunk() {
  return Config::Consumers::kSplitK > 1 ? cluster_rank<Config>() : 0;
}

template <class Config>
__device__ __forceinline__ Chunk chunk_of(const TileScheduler<Config>& tile, int group, int i) {
  constexpr int kAcross = kChunksAcross<Config>;
  const int across = i % kAcross;
  const int column =
      Config::Scheduler::kTwoWidths ? tile.tile_column : tile.n / kResultColumns<Config>;
  const bool has_cut = Config::Scheduler::kTwoWidths ? tile.is_narrow : kHasCuts<Config>;
  Chunk chunk{tile.m + (Config::Consumers::kCooperative ? group * kRowsOfConsumer<Config> : 0) +
                  i / kAcross * kBlockRows,
              tile.n + across * kChunkColumns,
              column * kAcross + across,
              tile.batch,
              has_cut && across == kAcross - 1,
              tile.group.row_end};
  if constexpr (Config::Scheduler::kOwnParams) chunk.params = tile.problem.params;
  return chunk;
}

// Position in the ring of stages.
template <int kStages>
struct RingPosition {
  int stage = 0;
  uint32_t phase = 0;
  __device__ __forceinline__ void next() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
  __device__ __forceinline__ void skip(int count) {
    stage += count;
    phase ^= static_cast<uint32_t>(stage / kStages) & 1;
    stage %= kStages;
  }
};

}  // namespace epifuse::sm90
