// cuBLASLt, opened at run time: the entry points epifuse calls, typed without any CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "jit/driver_api.h"

namespace epifuse::cuda {

using LtStatus = int;
using LtHandle = struct LtHandleTag*;
using LtMatmulDesc = struct LtMatmulDescTag*;
using LtMatrixLayout = struct LtMatrixLayoutTag*;
using LtPreference = struct LtPreferenceTag*;

inline constexpr LtStatus kLtSuccess = 0;

// Values are those of the library's ABI.
enum class LtComputeType : int { f32 = 68, f32_fast_tf32 = 77 };
enum class LtDataType : int { f32 = 0, f16 = 2, bf16 = 14, e4m3 = 28, e5m2 = 29 };
enum class LtDescAttribute : int {
  transpose_a = 3,
  transpose_b = 4,
  epilogue = 7,
  bias_pointer = 8,
  aux_pointer = 11,
  aux_leading = 12,
  a_scale_pointer = 17,
  b_scale_pointer = 18,
  fast_accumulation = 25,
  bias_type = 26,
  a_scale_mode = 31,
  b_scale_mode = 32,
};
// Of cublasLtMatmulMatrixScale_t: a float32 for each row of A or column of B (12.9 and later).
inline constexpr std::int32_t kLtScaleOfRows = 3;
// Flags of cublasLtEpilogue_t; aux stores what enters the activation.
enum LtEpilogue : std::uint32_t {
  kLtNoEpilogue = 1,
  kLtRelu = 2,
  kLtBias = 4,
  kLtGelu = 32,
  kLtAux = 128,
};
enum class LtOperation : std::int32_t { none = 0, transpose = 1 };
enum class LtLayoutAttribute : int { batch_count = 5, batch_stride = 6 };
enum class LtPreferenceAttribute : int {
  max_workspace_bytes = 1,
  reduction_scheme_mask = 3,
  min_alignment_a_bytes = 5,
  min_alignment_b_bytes = 6,
  min_alignment_c_bytes = 7,
  min_alignment_d_bytes = 8,
};

struct LtAlgorithm {
  std::uint64_t data[8];
};

struct LtHeuristicResult {  // cublasLtMatmulHeuristicResult_t
  LtAlgorithm algorithm;
  std::size_t workspace_bytes;
  LtStatus state;
  float waves_count;
  int reserved[4];
};
static_assert(sizeof(LtHeuristicResult) == 96);

struct LtApi {
  LtStatus (*create)(LtHandle*) = nullptr;
  LtStatus (*destroy)(LtHandle) = nullptr;
  std::size_t (*version)() = nullptr;
  const char* (*status_name)(LtStatus) = nullptr;
  LtStatus (*desc_create)(LtMatmulDesc*, LtComputeType, LtDataType scale) = nullptr;
  LtStatus (*desc_destroy)(LtMatmulDesc) = nullptr;
  LtStatus (*desc_set)(LtMatmulDesc, LtDescAttribute, const void*, std::size_t) = nullptr;
  LtStatus (*layout_create)(LtMatrixLayout*, LtDataType, std::uint64_t rows, std::uint64_t cols,
                            std::int64_t leading) = nullptr;
  LtStatus (*layout_destroy)(LtMatrixLayout) = nullptr;
  LtStatus (*layout_set)(LtMatrixLayout, LtLayoutAttribute, const void*, std::size_t) = nullptr;
  LtStatus (*preference_create)(LtPreference*) = nullptr;
  LtStatus (*preference_destroy)(LtPreference) = nullptr;
  LtStatus (*preference_set)(LtPreference, LtPreferenceAttribute, const void*,
                             std::size_t) = nullptr;
  LtStatus (*heuristic)(LtHandle, LtMatmulDesc, LtMatrixLayout a, LtMatrixLayout b,
                        LtMatrixLayout c, LtMatrixLayout d, LtPreference, int requested,
                        LtHeuristicResult*, int* returned) = nullptr;
  LtStatus (*matmul)(LtHandle, LtMatmulDesc, const void* alpha, const void* a, LtMatrixLayout,
                     const void* b, LtMatrixLayout, const void* beta, const void* c, LtMatrixLayout,
                     void* d, LtMatrixLayout, const LtAlgorithm*, void* workspace,
                     std::size_t workspace_bytes, jit::CuStream) = nullptr;
};

// The process's cuBLASLt. Throws UnavailableError with every place it looked in.
std::shared_ptr<const LtApi> open_cublaslt();

// Throws DeviceError naming the call and the library's own word for the status.
void check(const LtApi& api, LtStatus status, const char* call);

}  // namespace epifuse::cuda
