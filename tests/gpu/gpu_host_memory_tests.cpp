// Memory that a GPU cannot read is refused before a kernel faults on it.
#include <gtest/gtest.h>

#include <string>
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

}  // namespace
}  // namespace epifuse
