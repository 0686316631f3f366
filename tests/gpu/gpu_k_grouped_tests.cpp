// Gradients of grouped weights on a GPU: groups whose ends change under one captured graph, and lie
// at and around the ends of steps of K.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "backends/cuda/driver/device.h"
#include "backends/cuda/driver/memory.h"
#include "check/verify_program.h"
#include "cli/tensors.h"
#include "epifuse/epifuse.h"
#include "ir/text.h"
#include "tests/gpu/captured_run.h"

namespace epifuse {
namespace {

constexpr std::int64_t kRows = 1000, kGroups = 12;

constexpr const char* kGradient = R"(
graph gradient(x: bf16[T, M], dy: bf16[T, N], ends: i32[G], d: f32[G, M, N]) {
  p = k_grouped_matmul x^T, dy, ends -> f32
  s = add d, p
  return s
})";

class GpuKGrouped : public ::testing::TestWithParam<Sizes> {
 protected:
  std::shared_ptr<const cuda::Device> device_ = cuda::Device::require();
  const ir::Graph graph_ = ir::parse(kGradient);
  const Program program_ = compile(Graph::parse(kGradient), Target::cuda());
  cli::HostTensors host_{graph_, GetParam(), {}};
  cli::TargetTensors target_{host_, Target::cuda()};

  void set_ends(const std::vector<std::int32_t>& ends) {
    const TensorView& view = host_.view("ends");
    ASSERT_EQ(static_cast<std::int64_t>(ends.size()), view.num_elements());
    std::memcpy(view.data, ends.data(), ends.size() * sizeof(std::int32_t));
    const auto found = std::ranges::find(target_.bindings(), "ends", &Binding::name);
    device_->check(
        device_->api().memcpy_host_to_device(reinterpret_cast<jit::CuDevicePtr>(found->view.data),
                                             ends.data(), ends.size() * sizeof(std::int32_t)),
        "cuMemcpyHtoD");
  }

  void expect_right() {
    target_.fetch_outputs();
    for (const reference::Verdict& verdict :
         verify_program(program_, host_.bindings(), target_.bindings())) {
      EXPECT_TRUE(verdict.ok()) << verdict.first_failure;
    }
  }
};

std::vector<std::int32_t> drawn(unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int32_t> ends(kGroups);
  for (std::int32_t& end : ends) {
    end = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(kRows + 1));
    if (seed % 2 == 0) end = end / 64 * 64;
  }
  std::sort(ends.begin(), ends.end());
  return ends;
}

TEST_P(GpuKGrouped, OneCaptureReplaysWithOtherGroups) {
  std::vector<std::vector<std::int32_t>> all{
      {0, 1, 64, 64, 127, 191, 256, 321, 384, 448, 513, 1000},
      {63, 127, 192, 193, 193, 321, 385, 450, 512, 576, 576, 640},
      std::vector<std::int32_t>(kGroups, 0),
      std::vector<std::int32_t>(kGroups, 1000)};
  for (unsigned seed = 0; seed < 8; ++seed) all.push_back(drawn(seed));
  const CapturedRun graph(device_,
                          [&](Stream stream) { program_.run(target_.bindings(), stream); });
  for (const auto& ends : all) {
    SCOPED_TRACE(::testing::PrintToString(ends));
    set_ends(ends);
    target_.poison_outputs();
    cuda::synchronize(*device_);
    graph.replay();
    expect_right();
  }
}

// Ends that fall or lie past the rows there are are the caller's fault; nothing else may suffer.
TEST_P(GpuKGrouped, WrongEndsLeadNowhere) {
  std::vector<std::int32_t> ends(kGroups, 7);
  ends[0] = -3;
  ends[1] = 1 << 30;
  set_ends(ends);
  program_.run(target_.bindings());
  target_.fetch_outputs();  // throws where the device met an illegal address
}

// Rows that TMA can address, and others, which another family copies.
INSTANTIATE_TEST_SUITE_P(
    Sizes, GpuKGrouped,
    ::testing::Values(Sizes{{"T", kRows}, {"G", kGroups}, {"M", 136}, {"N", 264}},
                      Sizes{{"T", kRows}, {"G", kGroups}, {"M", 133}, {"N", 65}}));

}  // namespace
}  // namespace epifuse
