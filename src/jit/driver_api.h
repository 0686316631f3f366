// The CUDA driver's entry points and the values they take, typed without any CUDA header.
#pragma once

#include "jit/driver.h"
#include "kernels/abi.h"

namespace epifuse::jit {

using CuGraph = struct CuGraphTag*;
using CuGraphExec = struct CuGraphExecTag*;
using CuTensorMap = abi::TensorMap;

inline constexpr CuResult kCudaSuccess = 0, kCudaInvalidValue = 1;
inline constexpr CuResult kCudaErrorOutOfMemory = 2;

// Values are those of the driver's ABI, which never change.
enum class CuDeviceAttribute : int {
  max_shared_memory_per_block = 8,
  clock_rate_khz = 13,
  multiprocessor_count = 16,
  pci_bus_id = 33,
  pci_device_id = 34,
  memory_clock_rate_khz = 36,
  memory_bus_width_bits = 37,
  l2_cache_bytes = 38,
  pci_domain_id = 50,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  pageable_memory_access = 88,
  max_shared_memory_per_block_optin = 97,
  memory_pools_supported = 115,
};

enum class CuFunctionAttribute : int {
  max_threads_per_block = 0,
  static_shared_bytes = 1,
  local_bytes = 3,
  num_registers = 4,
  max_dynamic_shared_bytes = 8,
  non_portable_cluster_size_allowed = 14,
};

enum class CuPointerAttribute : int { context = 1, memory_type = 2, device_ordinal = 9 };
enum class CuMemoryType : unsigned { host = 1, device = 2, array = 3, unified = 4 };

using CuMemoryPool = struct CuMemoryPoolTag*;
enum class CuMemoryPoolAttribute : int { release_threshold_bytes = 4 };
struct CuMemoryPoolProperties {  // CUmemPoolProps
  int alloc_type = 1;            // pinned: ordinary device memory
  int handle_types = 0;
  int location_type = 1;  // a device
  int location_id = 0;    // its ordinal
  void* security_attributes = nullptr;
  std::size_t max_bytes = 0;
  unsigned short usage = 0;
  unsigned char reserved[54] = {};
};
static_assert(sizeof(CuMemoryPoolProperties) == 88);

enum class CuStreamCaptureStatus : int { none = 0, active = 1, invalidated = 2 };
enum class CuStreamCaptureMode : int { global = 0, thread_local_ = 1, relaxed = 2 };
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDefault = 0;

enum class CuTensorMapDataType : int {
  uint8 = 0,
  float16 = 6,
  float32 = 7,
  bfloat16 = 9,
  tfloat32 = 11,  // float32 in memory, rounded to TF32 on the way
};
enum class CuTensorMapInterleave : int { none = 0 };
enum class CuTensorMapSwizzle : int { none = 0, bytes_32 = 1, bytes_64 = 2, bytes_128 = 3 };
enum class CuTensorMapL2Promotion : int { none = 0, bytes_64 = 1, bytes_128 = 2, bytes_256 = 3 };
enum class CuTensorMapFill : int { zeros = 0 };

enum class CuLaunchAttributeId : int {
  cluster_dimension = 4,
  programmatic_stream_serialization = 6,
};

// CUlaunchAttribute: its value is a union of 64 bytes.
struct alignas(8) CuLaunchAttribute {
  CuLaunchAttributeId id;
  unsigned char padding[4];
  union Value {
    unsigned char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int programmatic_stream_serialization_allowed;
  } value;
};
static_assert(sizeof(CuLaunchAttribute) == 72);

struct CuLaunchConfig {  // CUlaunchConfig
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned smem_bytes;
  CuStream stream;
  CuLaunchAttribute* attributes;
  unsigned num_attributes;
};
static_assert(sizeof(CuLaunchConfig) == 56);

struct DriverApi {
#define EPIFUSE_DRIVER_CALL(member, symbol, parameters) CuResult(*member) parameters = nullptr;
#include "jit/driver.def"
#undef EPIFUSE_DRIVER_CALL
};

}  // namespace epifuse::jit
