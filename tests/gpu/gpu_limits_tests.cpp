// What the driver says of a GPU, which the model of time and the choice of kernels go by.
#include <gtest/gtest.h>

#include <span>
#include <string>

#include "backends/cuda/driver/context.h"
#include "backends/cuda/driver/device.h"
#include "epifuse/epifuse.h"
#include "jit/jit.h"
#include "targets/device_profile.h"
#include "targets/targets.h"

namespace epifuse {
namespace {

TEST(GpuLimits, TheDriverCountsClusters) {
  const auto device = cuda::Device::require();
  const Program program =
      compile(Graph::parse("graph g(x: bf16[M, 128], w: bf16[192, 128], b: bf16[192]) {\n"
                           "  h = matmul x, w^T\n  y = add h, b\n  return y\n}\n"),
              Target::cuda());
  const auto sources = program.sources();
  ASSERT_FALSE(sources.empty());
  const targets::TargetInfo& target = *targets::find_target(program.target().arch);
  jit::Jit jit{jit::KernelCache({})};
  const std::string& text = sources[0].second;
  const std::size_t entry = text.rfind("epifuse_gemm_");
  const codegen::KernelSource source{text.substr(entry, text.find('(', entry) - entry), text,
                                     program.target().arch};
  const auto binary = jit.get(std::span(&source, 1)).front();
  cuda::Context context(device, target);
  context.count_clusters(binary, source.entry);
  const targets::DeviceLimits& limits = context.limits();
  EXPECT_EQ(limits.num_sms, device->info().num_sms);
  EXPECT_EQ(context.profile().known, targets::find_device(device->info().name));
  const targets::DriverRates& rates = context.profile().driver;
  EXPECT_GT(rates.clocks_per_us, 500);
  EXPECT_GT(rates.bytes_per_us, 0.1e6);
  EXPECT_GT(rates.l2_bytes, 1e6);
  EXPECT_GE(limits.clusters_of_2, limits.num_sms / 4);
  EXPECT_LE(limits.clusters_of_2, limits.num_sms / 2);
  EXPECT_LE(limits.clusters_of_3, limits.num_sms / 3);
  EXPECT_LE(limits.clusters_of_4, limits.clusters_of_2 / 2);
  EXPECT_LE(limits.clusters_of_8, limits.clusters_of_4 / 2);
  EXPECT_GE(limits.clusters_of_8, 1);
}

}  // namespace
}  // namespace epifuse
