// Products of few rows, where the bytes of B are all that counts: no stages and no tensor maps.
//
// The warps of a CTA share K, and where tiles are too few so do the CTAs of a cluster. Each warp
// goes through its part of B once, several loads ahead; mma.sync multiplies, with columns of D as
// the rows of its first operand. What an instruction sums over is permuted so that a thread's
// operands lie side by side in memory. The warps' sums meet in shared memory and are added in a
// fixed order; then each thread takes single elements through the epilogue.
#pragma once

#include "kernels/common/overlap.cuh"
#include "kernels/sm90/few_rows_loads.cuh"
#include "kernels/sm90/few_rows_shifted.cuh"
#include "kernels/sm90/few_rows_vectors.cuh"

namespace epifuse::sm90 {

// Of each group of blocks of 16 columns a thread has neighbours: two of each block.
template <class Config>
__device__ __forceinline__ void multiply_n_major(const typename FewRowsTile<Config>::Step& step,
                                                 typename FewRowsTile<Config>::Sums& sums) {
  using Tile = FewRowsTile<Config>;
#pragma unroll
  for (int product = 0; product < Config::kProducts; ++product) {
#pragma unroll
    for (int block = 0; block < Tile::kBlocks; ++block) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        constexpr int kGroup = Tile::kSideBySide;
        const uint4* rows_of_k = &step.b[product][(block / kGroup * 2 + half) * 4];
        uint32_t w[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const uint4& x = rows_of_k[j];
          const int at = block % kGroup;
          w[j] = at == 0 ? x.x : at == 1 ? x.y : at == 2 ? x.z : x.w;
        }
        const uint32_t b[4] = {__byte_perm(w[0], w[1], 0x5410), __byte_perm(w[0], w[1], 0x7632),
                               __byte_perm(w[2], w[3], 0x5410), __byte_perm(w[2], w[3], 0x7632)};
#pragma unroll
        for (int rows = 0; rows < Tile::kRowBlocks; ++rows) {
          const uint4& a = step.a[rows][0];
          Mma<typename Config::Operand>::run(sums[product][rows][block], b, half == 0 ? a.x : a.z,
                                             half == 0 ? a.y : a.w);
        }
      }
    }
  }
}

// The sums of a CTA's warps, [warp][product][row][column].
template <class Config>
class FewRowsSums {
  static constexpr int kOfProduct = Config::kRows * Config::kColumns;
  static constexpr int kOfWarp = Config::kProducts * kOfProduct;

 public:
  static __device__ __forceinline__ void put(float* all,
                                             const typename FewRowsTile<Config>::Sums& sums) {
    using Tile = FewRowsTile<Config>;
    const int lane = static_cast<int>(threadIdx.x) & 31;
    float* own = all + static_cast<int>(threadIdx.x) / 32 * kOfWarp;
#pragma unroll
    for (int operand = 0; operand < Tile::kOperands; ++operand) {
#pragma unroll
      for (int rows = 0; rows < Tile::kRowBlocks; ++rows) {
#pragma unroll
        for (int block = 0; block < Tile::kBlocks; ++block) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int row = rows * kRowsOfBlock + lane % 4 * 2 + i % 2;
            const int product = Tile::kJoined ? i / 2 : operand;
            own[(product * Config::kRows + row) * Config::kColumns +
                column(block, lane / 4, i / 2)] = sums[operand][rows][block][i];
          }
        }
      }
    }
  }

  // Of element `at` of the tile.
  static __device__ __forceinline__ float of_warps(const float* all, int product, int at) {
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < Config::kWarps; ++warp) {
      sum += all[warp * kOfWarp + product * kOfProduct + at];
    }
    return sum;
  }

  // Where the first warp had its own: read by no other thread.
  static __device__ __forceinline__ void keep(float* all, int product, int at, float sum) {
    all[product * kOfProduct + at] = sum;
  }
  // Of what each CTA of the cluster keeps.
  static __device__ __forceinline__ float of_cluster(const float* all, int product, int at) {
    float sum = 0;
#pragma unroll
    for (int cta = 0; cta < Config::kSplitK; ++cta) {
      sum += load_float_of_cta(all + product * kOfProduct + at, cta);
    }
    return sum;
  }

 private:
  // Of the tile: of row `of_eight` of a block's instruction, or 8 rows below.
  static __device__ __forceinline__ int column(int block, int of_eight, int half) {
    using Tile = FewRowsTile<Config>;
    if constexpr (Tile::kJoined) return block * 8 + of_eight;
    if constexpr (Config::kBIsKMajor) return block * 16 + half * 8 + of_eight;
    return block / Tile::kSideBySide * Tile::kColumnsOfGroup + of_eight * Tile::kColumnsOfThread +
           block % Tile::kSideBySide * 2 + half;
  }
};

// What the epilogue reads at one element, but for parameters.
template <class Config, class Epilogue>
__device__ __forceinline__ Operands<Epilogue> read_few_rows(const abi::FewRowsParams& p,
                                                            const FewRowsPlace<Config>& place,
                                                            int row, int column) {
  const auto read = [&](auto type, const void* data, const abi::BatchStrides& batch, long long at) {
    using Element = decltype(type);
    return Element::load(
        static_cast<const typename Element::Storage*>(data)[at + place.offset(batch)]);
  };
  Operands<Epilogue> x;
  Epilogue::Scalars::for_each([&](auto type, int i) {
    x.scalar[i] = read(type, p.scalars[i].data, p.scalars[i].batch, 0);
  });
  Epilogue::Rows::for_each([&](auto type, int i) {
    x.row[i] = read(type, p.rows[i].data, p.rows[i].batch, column * p.rows[i].stride);
  });
  Epilogue::Cols::for_each([&](auto type, int i) {
    x.col[i] = read(type, p.cols[i].data, p.cols[i].batch, row * p.cols[i].stride);
  });
  Epilogue::Tiles::for_each([&](auto type, int i) {
    const abi::Matrix& from = p.tiles[i];
    x.tile[i] = read(type, from.data, from.batch, row * from.row_stride + column * from.col_stride);
  });
  return x;
}

// One element through the epilogue.
template <class Config, class Epilogue>
__device__ __forceinline__ void write_few_rows(const abi::FewRowsParams& p,
                                               const FewRowsPlace<Config>& place, int row,
                                               int column, Operands<Epilogue> x, float sum,
                                               [[maybe_unused]] float second) {
#pragma unroll
  for (int i = 0; i < Epilogue::kNumParameters; ++i) x.parameter[i] = p.parameters[i];
  float out[Epilogue::Stores::kCount];
  if constexpr (Config::kProducts > 1) {
    Epilogue::apply(sum, second, x, out);
  } else {
    Epilogue::apply(sum, x, out);
  }
  Epilogue::Stores::for_each([&](auto type, int i) {
    using Element = decltype(type);
    const abi::Matrix& to = p.stores[i];
    static_cast<typename Element::Storage*>(
        to.data)[row * to.row_stride + column * to.col_stride + place.offset(to.batch)] =
        Element::store(out[i]);
  });
}

// A warp's part of K where B runs along N: steps `stride` apart. Calls meanwhile() while the first
// loads are on their way.
template <class Config, class F>
__device__ __forceinline__ void sum_few_rows(const FewRowsLoads<Config>& loads, int k, int end,
                                             typename FewRowsTile<Config>::Sums& sums,
                                             F meanwhile) {
  using Tile = FewRowsTile<Config>;
  constexpr int kStride = Tile::kStep * Config::kWarps * Config::kSplitK;
  typename Tile::Loaded loaded[Config::kDepth];
#pragma unroll
  for (int i = 0; i < Config::kDepth; ++i) loads.load(k + i * kStride, loaded[i]);
  meanwhile();
  for (; k < end; k += kStride * Config::kDepth) {
#pragma unroll
    for (int i = 0; i < Config::kDepth; ++i) {
      typename Tile::Step step;
      loads.arrange(k + i * kStride, loaded[i], step);
      multiply_n_major<Config>(step, sums);
      loads.load(k + (i + Config::kDepth) * kStride, loaded[i]);
    }
  }
}

// The elements of a tile that has `rows` x `columns` of them go to the threads of a cluster by
// turns; a thread's first.
template <class Config>
__device__ __forceinline__ int first_element(int rank) {
  return rank * (Config::kWarps * 32) + static_cast<int>(threadIdx.x);
}
template <class Config>
__device__ __forceinline__ bool is_element(int i, int rows, int columns) {
  return i < min(rows, Config::kRows) * Config::kColumns && i % Config::kColumns < columns;
}
// A thread has one at most, and few operands belong to it: they are read before they are needed.
template <class Config, class Epilogue>
constexpr bool reads_early() {
  constexpr int kMost = 2;
  return Config::kRows * Config::kColumns <= Config::kWarps * 32 * Config::kSplitK &&
         Epilogue::Rows::kCount + Epilogue::Cols::kCount + Epilogue::Tiles::kCount +
                 Epilogue::Scalars::kCount <=
             kMost;
}

// Calls finish(down, across, sum, second) for this thread's elements of a tile.
template <class Config, class F>
__device__ __forceinline__ void add_up_few_rows(float* all, int rank, int rows, int columns,
                                                F finish) {
  using Sums = FewRowsSums<Config>;
  constexpr int kThreads = Config::kWarps * 32, kSecond = Config::kProducts - 1;
  const auto for_each = [&](int first, int stride, auto f) {
#pragma unroll 1
    for (int i = first; i < min(rows, Config::kRows) * Config::kColumns; i += stride) {
      if (is_element<Config>(i, rows, columns)) f(i);
    }
  };
  const auto done = [&](int i, float sum, float second) {
    finish(i / Config::kColumns, i % Config::kColumns, sum, second);
  };
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();
  if constexpr (Config::kSplitK == 1) {
    for_each(thread, kThreads,
             [&](int i) { done(i, Sums::of_warps(all, 0, i), Sums::of_warps(all, kSecond, i)); });
    return;
  }
  for_each(thread, kThreads, [&](int i) {
    const float sum = Sums::of_warps(all, 0, i), second = Sums::of_warps(all, kSecond, i);
    Sums::keep(all, 0, i, sum);
    if (kSecond > 0) Sums::keep(all, kSecond, i, second);
  });
  sync_cluster();
  for_each(first_element<Config>(rank), Config::kSplitK * kThreads,
           [&](int i) { done(i, Sums::of_cluster(all, 0, i), Sums::of_cluster(all, kSecond, i)); });
  sync_cluster();  // others have read this CTA's
}

// Of a row of A and a column of B, what their vectors leave of K.
template <class Config>
__device__ __forceinline__ float sum_of_last_k(const abi::FewRowsParams& p, const abi::Matrix& b,
                                               const FewRowsPlace<Config>& at, int row,
                                               int column) {
  using A = typename Config::Operand;
  using B = typename Config::OperandB;
  const auto read = [&](auto type, const abi::Matrix& x, int mn, int k) {
    using Element = decltype(type);
    return Element::load(static_cast<const typename Element::Storage*>(
        x.data)[mn * x.row_stride + k * x.col_stride + at.offset(x.batch)]);
  };
  float sum = 0;
#pragma unroll 1
  for (int k = k_in_vectors<Config>(p); k < p.k; ++k) {
    sum += read(A(), p.a, row, k) * read(B(), b, column, k);
  }
  return sum;
}

// `cta`: of those that the product has.
template <class Config, class Epilogue>
__device__ __forceinline__ void few_rows(const abi::FewRowsParams& p, int cta) {
  using Tile = FewRowsTile<Config>;
  const int rank = Config::kSplitK > 1 ? rank_in_cluster() : 0;
  const FewRowsPlace<Config> at(p, cta / Config::kSplitK);
  const unsigned share = rank * Config::kWarps + threadIdx.x / 32;

  Operands<Epilogue> early;
  const auto read_early = [&] {
    if constexpr (reads_early<Config, Epilogue>()) {
      const int i = first_element<Config>(rank);
      if (is_element<Config>(i, p.m - at.row, at.columns_of(p))) {
        early = read_few_rows<Config, Epilogue>(p, at, at.row + i / Config::kColumns,
                                                at.column_at(i % Config::kColumns));
      }
    }
  };
  typename Tile::Sums sums = {};
  if constexpr (takes_vectors<Config>()) {
    FewRowsVectors<Config> vectors(p, at, share);
    vectors.fetch_first();
    await_previous_kernel();
    vectors.sum(sums, read_early);
  } else if constexpr (Config::kBIsKMajor) {
    FewRowsShifted<Config> rows(p, at, share);
    rows.fetch_first();
    await_previous_kernel();
    rows.sum(sums, read_early);
  } else {
    await_previous_kernel();
    sum_few_rows<Config>(FewRowsLoads<Config>(p, at), static_cast<int>(share) * Tile::kStep,
                         k_in_vectors<Config>(p), sums, read_early);
  }
  allow_next_kernel();
  FewRowsSums<Config>::put(shared_floats(), sums);
  add_up_few_rows<Config>(shared_floats(), rank, p.m - at.row, at.columns_of(p),
                          [&](int down, int across, float sum, float second) {
                            const int row = at.row + down, column = at.column_at(across);
                            if (k_in_vectors<Config>(p) != p.k) [[unlikely]] {
                              sum += sum_of_last_k(p, p.b, at, row, column);
                              if (Config::kProducts > 1)
                                second += sum_of_last_k(p, p.second_b, at, row, column);
                            }
                            if constexpr (!reads_early<Config, Epilogue>()) {
                              early = read_few_rows<Config, Epilogue>(p, at, row, column);
                            }
                            write_few_rows<Config, Epilogue>(p, at, row, column, early, sum,
                                                             second);
                          });
}

template <class Config, class Epilogue>
__device__ __forceinline__ void few_rows(const abi::FewRowsParams& p) {
  few_rows<Config, Epilogue>(p, static_cast<int>(blockIdx.x));
}

// Several products. A cluster is within one of them.
template <class Config, class Epilogue>
__device__ __forceinline__ void few_rows(const abi::FewRowsSideBySideParams& p) {
  const int cta = static_cast<int>(blockIdx.x);
  int part = 0, first = 0;
#pragma unroll
  for (int i = 0; i + 1 < abi::kMostSideBySide; ++i) {
    if (cta >= p.ends[i]) {
      part = i + 1;
      first = p.ends[i];
    }
  }
  few_rows<Config, Epilogue>(p.parts[part], cta - first);
}

}  // namespace epifuse::sm90
