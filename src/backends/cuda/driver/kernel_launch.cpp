// Loads kernels into a context and launches them.
#include "backends/cuda/driver/kernel_launch.h"

#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "epifuse/error.h"

namespace epifuse::cuda {
namespace {

constexpr unsigned kSmemWithoutAsking = 48 * 1024;
constexpr std::size_t kMostParams = 32764;  // bytes that CUDA lets a kernel have

jit::CuTensorMapDataType map_type(DType dtype) {
  switch (dtype) {
    case DType::bf16: return jit::CuTensorMapDataType::bfloat16;
    case DType::f16: return jit::CuTensorMapDataType::float16;
    case DType::f32: return jit::CuTensorMapDataType::float32;
    case DType::e4m3:
    case DType::e5m2:
    case DType::i8:
    case DType::boolean: return jit::CuTensorMapDataType::uint8;
    case DType::i32:
    case DType::i64: break;  // never read by tensor maps
  }
  return jit::CuTensorMapDataType::uint8;
}

// L2 fetches 256 bytes at once where rows begin at its lines. Where they do not, a box's row
// touches two lines, and more would be fetched than is read (docs/gotchas-hopper.md).
jit::CuTensorMapL2Promotion l2_promotion(std::int64_t row_bytes) {
  constexpr std::int64_t kLine = 128;
  return row_bytes % kLine == 0 ? jit::CuTensorMapL2Promotion::bytes_256
                                : jit::CuTensorMapL2Promotion::none;
}

jit::CuTensorMap encode(const Device& device, const codegen::TensorMapRequest& request) {
  jit::CuTensorMap map;
  const auto bytes = static_cast<std::int64_t>(size_bytes(request.dtype));
  const auto wide = [](std::int64_t x) { return static_cast<std::uint64_t>(x); };
  const std::uint64_t sizes[] = {wide(request.cols), wide(request.rows), wide(request.inner),
                                 wide(request.outer)};
  const std::uint64_t strides_bytes[] = {wide(request.row_stride * bytes),
                                         wide(request.inner_stride * bytes),
                                         wide(request.outer_stride * bytes)};
  const std::uint32_t box[] = {static_cast<std::uint32_t>(request.box_cols),
                               static_cast<std::uint32_t>(request.box_rows), 1, 1};
  const std::uint32_t element_strides[] = {1, 1, 1, 1};
  const std::uint32_t rank = request.batched ? 4 : 2;
  const jit::CuResult result = device.api().tensor_map_encode_tiled(
      &map, request.rounds_to_tf32 ? jit::CuTensorMapDataType::tfloat32 : map_type(request.dtype),
      rank, const_cast<void*>(request.data), sizes, strides_bytes, box, element_strides,
      jit::CuTensorMapInterleave::none,
      request.swizzled ? jit::CuTensorMapSwizzle::bytes_128 : jit::CuTensorMapSwizzle::none,
      l2_promotion(request.row_stride * bytes), jit::CuTensorMapFill::zeros);
  if (result != jit::kCudaSuccess) {
    device.check(result, fmt::format("cuTensorMapEncodeTiled of {} x {} {} elements, rows {} "
                                     "apart, in boxes of {} x {},",
                                     request.rows, request.cols, name(request.dtype),
                                     request.row_stride, request.box_rows, request.box_cols)
                             .c_str());
  }
  return map;
}

}  // namespace

Modules::~Modules() {
  for (const auto& [binary, loaded] : loaded_) {
    if (loaded.module != nullptr) device_->api().module_unload(loaded.module);
  }
}

void Modules::load(Loaded& loaded, const std::string& entry) const {
  const jit::DriverApi& api = device_->api();
  const RelaxedCapture relaxed(api);
  device_->check(
      api.module_load_data_ex(&loaded.module, loaded.binary->cubin.data(), 0, nullptr, nullptr),
      "cuModuleLoadData");
  device_->check(api.module_get_function(&loaded.function, loaded.module, entry.c_str()),
                 "cuModuleGetFunction");
}

jit::CuFunction Modules::get(const std::shared_ptr<const jit::Binary>& binary,
                             const std::string& entry, unsigned smem_bytes) {
  const std::scoped_lock lock(mutex_);
  Loaded& loaded = loaded_[binary.get()];
  if (loaded.function == nullptr) {
    loaded.binary = binary;
    load(loaded, entry);
  }
  if (smem_bytes > kSmemWithoutAsking && smem_bytes > loaded.smem_bytes) {
    device_->check(device_->api().func_set_attribute(
                       loaded.function, jit::CuFunctionAttribute::max_dynamic_shared_bytes,
                       static_cast<int>(smem_bytes)),
                   "cuFuncSetAttribute");
    loaded.smem_bytes = smem_bytes;
  }
  return loaded.function;
}

KernelCall prepare_call(const Device& device, jit::CuFunction function, codegen::Launch launch) {
  KernelCall call;
  call.function = function;
  call.grid = launch.grid;
  call.block = launch.block;
  call.cluster = launch.cluster;
  call.smem_bytes = launch.smem_bytes;
  constexpr int kFirstMajor = 9;  // with programmatic launches
  call.overlaps_previous = launch.overlaps_previous && device.info().major >= kFirstMajor;
  call.params = std::move(launch.params);
  for (const codegen::TensorMapRequest& request : launch.maps) {
    const jit::CuTensorMap map = encode(device, request);
    std::memcpy(call.params.data() + request.offset, &map, sizeof map);
  }
  return call;
}

namespace {

void launch(const Device& device, const KernelCall& call, void* block, jit::CuStream stream) {
  void* params[] = {block};
  jit::CuLaunchAttribute attributes[2];
  unsigned num_attributes = 0;
  if (call.cluster > 1) {
    jit::CuLaunchAttribute& attribute = attributes[num_attributes++];
    attribute.id = jit::CuLaunchAttributeId::cluster_dimension;
    attribute.value.cluster = {call.cluster, 1, 1};
  }
  if (call.overlaps_previous) {
    jit::CuLaunchAttribute& attribute = attributes[num_attributes++];
    attribute.id = jit::CuLaunchAttributeId::programmatic_stream_serialization;
    attribute.value.programmatic_stream_serialization_allowed = 1;
  }
  if (num_attributes == 0) {
    device.check(device.api().launch_kernel(call.function, call.grid, 1, 1, call.block, 1, 1,
                                            call.smem_bytes, stream, params, nullptr),
                 "cuLaunchKernel");
    return;
  }
  const jit::CuLaunchConfig config{call.grid,       1,      1,          call.block,    1, 1,
                                   call.smem_bytes, stream, attributes, num_attributes};
  device.check(device.api().launch_kernel_ex(&config, call.function, params, nullptr),
               "cuLaunchKernelEx");
}

}  // namespace

void run(const Device& device, const KernelCall& call, jit::CuStream stream) {
  launch(device, call, const_cast<unsigned char*>(call.params.data()), stream);
}

PatchedCall prepare_call(const Device& device, jit::CuFunction function,
                         codegen::PatchedLaunch launch, const codegen::CallValues& values) {
  PatchedCall out;
  for (std::size_t i = 0; i < launch.maps.size(); ++i) {
    codegen::TensorMapRequest& request = launch.launch.maps[i];
    const std::uintptr_t address = values.address(launch.maps[i]);
    request.data = reinterpret_cast<const void*>(address);
    out.maps.push_back({request.offset, launch.maps[i], address});
  }
  codegen::patch(launch.addresses, launch.scalars, values, launch.launch.params.data());
  out.call = prepare_call(device, function, std::move(launch.launch));
  EPIFUSE_CHECK(out.call.params.size() <= kMostParams, "parameters that a kernel can take");
  out.addresses = std::move(launch.addresses);
  out.scalars = std::move(launch.scalars);
  return out;
}

void write_params(const Device& device, const PatchedCall& call, const codegen::CallValues& values,
                  unsigned char* params) {
  std::memcpy(params, call.call.params.data(), call.call.params.size());
  codegen::patch(call.addresses, call.scalars, values, params);
  for (const PatchedCall::Map& map : call.maps) {
    const std::uintptr_t address = values.address(map.place);
    if (address == map.address) continue;
    device.check(device.api().tensor_map_replace_address(
                     reinterpret_cast<jit::CuTensorMap*>(params + map.offset),
                     reinterpret_cast<void*>(address)),
                 "cuTensorMapReplaceAddress");
  }
}

void run(const Device& device, const PatchedCall& call, const codegen::CallValues& values,
         jit::CuStream stream) {
  alignas(jit::CuTensorMap) unsigned char params[kMostParams];
  write_params(device, call, values, params);
  launch(device, call.call, params, stream);
}

}  // namespace epifuse::cuda
