// Memory that a GPU cannot read is refused before a kernel faults on it.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/driver/device.h"
#include "backends/cuda/driver/memory.h"
#include "epifuse/epifuse.h"

namespace epifuse {
namespace {

TEST(GpuHostMemory, IsRefusedAndCostsNothing) {
  const auto device = cuda::Device::require();
  if (device->info().reads_any_host_memory) GTEST_SKIP() << "this GPU reads it";
  const Program program = compile(
      Graph::parse("graph plain(x: f32[M, 8]) {\n  y = add x, 1\n  return y\n}\n"), Target::cuda());
  std::vector<float> host(24, 2.0f), result(24);
  cuda::DeviceBuffer x(device, 24 * sizeof(float)), y(device, 24 * sizeof(float));
  x.copy_from_host(host.data(), 24 * sizeof(float));
  const auto error_of = [&](void* from, void* to) -> std::string {
    try {
      program.run({{"x", TensorView{from, DType::f32, {3, 8}, {}, DeviceKind::cuda}},
                   {"y", TensorView{to, DType::f32, {3, 8}, {}, DeviceKind::cuda}}});
      cuda::synchronize(*device);
    } catch (const ArgumentError& error) {
      return error.what();
    }
    return "";
  };
  const std::string expected = ": expected memory of a GPU, or of the host where it is pinned, got";
  const std::string in = error_of(host.data(), y.data()), out = error_of(x.data(), result.data());
  EXPECT_TRUE(in.starts_with("input 'x' lies at 0x") && in.find(expected) != in.npos) << in;
  EXPECT_TRUE(out.starts_with("output 'y' lies at 0x") && out.find(expected) != out.npos) << out;
  EXPECT_EQ(error_of(x.data(), y.data()), "");
  y.copy_to_host(result.data(), 24 * sizeof(float));
  EXPECT_EQ(result, std::vector<float>(24, 3.0f));
}

// A tensor without elements is nowhere.
TEST(GpuHostMemory, IsNotAskedForByEmptyTensors) {
  const Program program =
      compile(Graph::parse("graph empty(x: bf16[M, 64], w: bf16[32, 64], b: bf16[32]) {\n"
                           "  h = matmul x, w^T\n  y = add h, b\n  return y\n}\n"),
              Target::cuda());
  const auto device = cuda::Device::require();
  cuda::DeviceBuffer w(device, 32 * 64 * 2), b(device, 32 * 2);
  const auto on_device = [](void* data, std::vector<std::int64_t> shape) {
    return TensorView{data, DType::bf16, std::move(shape), {}, DeviceKind::cuda};
  };
  EXPECT_NO_THROW(program.run({{"x", on_device(nullptr, {0, 64})},
                               {"w", on_device(w.data(), {32, 64})},
                               {"b", on_device(b.data(), {32})},
                               {"y", on_device(nullptr, {0, 32})}}));
  cuda::synchronize(*device);
}

}  // namespace
}  // namespace epifuse
