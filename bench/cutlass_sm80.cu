// The best of four tiles of CUTLASS 2.x's GemmUniversal (cp.async + mma.sync) on bf16 operands,
// both K-major, and the rate of mma.sync from registers. nvcc -O3 -std=c++17 -arch=sm_90
// nvcc -O3 -std=c++20 -arch=sm_90 --expt-relaxed-constexpr -I CUTLASS/include bench/cutlass_sm80.cu
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "cutlass/gemm/device/gemm_universal.h"

#define CHECK(x)                                                      \
  do {                                                                \
    auto status = (x);                                                \
    if (static_cast<int>(status) != 0) {                              \
      std::fprintf(stderr, "%s: %d\n", #x, static_cast<int>(status)); \
      std::exit(1);                                                   \
    }                                                                 \
  } while (0)

using bf16 = cutlass::bfloat16_t;
template <int M, int N, int K, int WM, int WN, int Stages>
using Gemm = cutlass::gemm::device::GemmUniversal<
    bf16, cutlass::layout::RowMajor, bf16, cutlass::layout::ColumnMajor, bf16,
    cutlass::layout::RowMajor, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80,
    cutlass::gemm::GemmShape<M, N, K>, cutlass::gemm::GemmShape<WM, WN, K>,
    cutlass::gemm::GemmShape<16, 8, 16>,
    cutlass::epilogue::thread::LinearCombination<bf16, 8, float, float,
                                                 cutlass::epilogue::thread::ScaleType::Nothing>,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<8>, Stages, 8, 8>;

__global__ void fill(__nv_bfloat16* x, long long n, unsigned seed) {
  for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    unsigned h = static_cast<unsigned>(i) * 2654435761u + seed;
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    x[i] = __float2bfloat16((static_cast<float>(h & 0xffff) / 65536.0f - 0.5f));
  }
}

// Four independent chains of sums in each of 8 warps an SM; operands are not zeros.
__global__ void __launch_bounds__(256, 1) multiply(float* out, int turns, unsigned seed) {
  float sums[16][4] = {};
  unsigned a[4], b[2];
  for (int i = 0; i < 4; ++i) a[i] = 0x3c003c00u + threadIdx.x * 977u * seed + i;
  for (int i = 0; i < 2; ++i) b[i] = 0x3c003c00u + threadIdx.x * 593u * seed + i;
  for (int t = 0; t < turns; ++t) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
          "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(sums[i][0]), "+f"(sums[i][1]), "+f"(sums[i][2]), "+f"(sums[i][3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
  }
  float all = 0;
  for (int i = 0; i < 16; ++i) all += sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3];
  out[blockIdx.x * blockDim.x + threadIdx.x] = all;
}

double median_us(const std::function<void()>& run, int repeats, void* flush, size_t flush_bytes) {
  cudaEvent_t a, b;
  CHECK(cudaEventCreate(&a));
  CHECK(cudaEventCreate(&b));
  for (int i = 0; i < 3; ++i) run();
  std::vector<double> all;
  for (int i = 0; i < repeats; ++i) {
    if (flush != nullptr) CHECK(cudaMemsetAsync(flush, i, flush_bytes));
    CHECK(cudaEventRecord(a));
    run();
    CHECK(cudaEventRecord(b));
    CHECK(cudaEventSynchronize(b));
    float ms;
    CHECK(cudaEventElapsedTime(&ms, a, b));
    all.push_back(ms * 1000.0);
  }
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

template <class G>
void time_one(const char* name, int m, int n, int k, bf16* a, bf16* b, bf16* d, void* flush,
              size_t flush_bytes) {
  G gemm;
  typename G::Arguments args(cutlass::gemm::GemmUniversalMode::kGemm, {m, n, k}, 1, {1.0f, 0.0f}, a,
                             b, d, d, 0LL, 0LL, 0LL, 0LL, k, k, n, n);
  CHECK(gemm.can_implement(args));
  CHECK(gemm.initialize(args, nullptr));
  const double us = median_us([&] { CHECK(gemm()); }, 30, flush, flush_bytes);
  std::printf("  cutlass %-14s %8.1f us %6.1f TFLOP/s\n", name, us, 2.0 * m * n * k / us / 1e6);
}

int main() {
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  std::printf("%s\n", properties.name);
  float* sums;
  CHECK(cudaMalloc(&sums, sizeof(float) * 256 * properties.multiProcessorCount));
  for (const int turns : {2000, 20000}) {
    const double us = median_us(
        [&] { multiply<<<properties.multiProcessorCount, 256>>>(sums, turns, 3); }, 10, nullptr, 0);
    std::printf("mma.sync from registers, %6.0f us: %.1f TFLOP/s\n", us,
                2.0 * 16 * 8 * 16 * 16 * turns * 8 * properties.multiProcessorCount / us / 1e6);
  }
  const size_t flush_bytes = 256 << 20;
  void* flush;
  CHECK(cudaMalloc(&flush, flush_bytes));
  const int shapes[][3] = {{4096, 4096, 4096},
                           {8192, 8192, 1024},
                           {8192, 14336, 4096},
                           {2048, 4096, 4096},
                           {8192, 8192, 8192}};
  for (const auto& [m, n, k] : shapes) {
    bf16 *a, *b, *d;
    CHECK(cudaMalloc(&a, 2LL * m * k));
    CHECK(cudaMalloc(&b, 2LL * n * k));
    CHECK(cudaMalloc(&d, 2LL * m * n));
    fill<<<1024, 256>>>(reinterpret_cast<__nv_bfloat16*>(a), 1LL * m * k, 1);
    fill<<<1024, 256>>>(reinterpret_cast<__nv_bfloat16*>(b), 1LL * n * k, 2);
    std::printf("%dx%dx%d\n", m, n, k);
    const auto with = [&](auto tag, const char* name) {
      time_one<decltype(tag)>(name, m, n, k, a, b, d, flush, flush_bytes);
    };
    with(Gemm<128, 256, 32, 64, 64, 3>{}, "128x256x32 3");
    with(Gemm<256, 128, 32, 64, 64, 3>{}, "256x128x32 3");
    with(Gemm<128, 128, 32, 64, 64, 4>{}, "128x128x32 4");
    with(Gemm<128, 256, 64, 64, 64, 3>{}, "128x256x64 3");
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaFree(d));
  }
}
