// Groups of rows on a GPU: sizes that change under one captured graph, and rows of no group.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "backends/bind.h"
#include "backends/cuda/driver/device.h"
#include "backends/cuda/driver/memory.h"
#include "base/float_types.h"
#include "check/verify_program.h"
#include "cli/tensors.h"
#include "compile/program_state.h"
#include "epifuse/epifuse.h"
#include "ir/text.h"
#include "tests/gpu/captured_run.h"

namespace epifuse {
namespace {

constexpr std::int64_t kTokens = 75, kRows = 300, kGroups = 40;
const Sizes kSizes = {{"S", kTokens}, {"T", kRows}, {"G", kGroups}, {"N", 136}, {"K", 200}};

// A block of experts: rows gathered, gate and up in one kernel with what comes before the gate,
// down in a second one, whose rows go to their places.
constexpr const char* kExperts = R"(
graph experts(x: bf16[S, K], token: i64[T], w: bf16[G, K, 2*N], b: bf16[G, 2*N], v: bf16[G, K, N],
              p: f32[T, 1], place: i64[T], ends: i32[G]) {
  xt = take_rows x, token
  h0 = grouped_matmul xt, w, ends
  bt = repeat_rows b, ends [T, 2*N]
  h = add h0, bt
  g = slice h [:, ::2]
  u = slice h [:, 1::2]
  s = silu g
  y = mul s, u
  d = grouped_matmul y, v^T, ends -> f32
  pt = take_rows p, place
  c = mul d, pt
  z = put_rows c, place [T, K]
  return h, y, z
})";

class GpuGrouped : public ::testing::Test {
 protected:
  std::shared_ptr<const cuda::Device> device_ = cuda::Device::require();
  const ir::Graph graph_ = ir::parse(kExperts);
  const Program program_ = compile(Graph::parse(kExperts), Target::cuda());
  cli::HostTensors host_{graph_, kSizes, {}};
  cli::TargetTensors target_{host_, Target::cuda()};

  const TensorView& on_device(const std::string& name) const {
    const auto found = std::find_if(target_.bindings().begin(), target_.bindings().end(),
                                    [&](const Binding& each) { return each.name == name; });
    return found->view;
  }

  template <class T>
  void set(const std::string& name, const std::vector<T>& integers) {
    const TensorView& view = host_.view(name);
    ASSERT_EQ(static_cast<std::int64_t>(integers.size()), view.num_elements());
    std::memcpy(view.data, integers.data(), integers.size() * sizeof(T));
    const auto target = reinterpret_cast<jit::CuDevicePtr>(on_device(name).data);
    device_->check(
        device_->api().memcpy_host_to_device(target, integers.data(), integers.size() * sizeof(T)),
        "cuMemcpyHtoD");
  }

  // Routing number `seed`: which token each row has, where it goes, and where groups end. The first
  // have all rows in one group, and no rows at all.
  void route(unsigned seed) {
    std::mt19937_64 random(seed);
    std::vector<std::int64_t> token(kRows), place(kRows);
    for (std::int64_t i = 0; i < kRows; ++i) {
      token[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(random() % kTokens);
      place[static_cast<std::size_t>(i)] = i;
    }
    std::shuffle(place.begin(), place.end(), random);
    std::vector<std::int32_t> ends(kGroups);
    num_rows_ = seed == 1 ? 0 : seed % 3 == 0 ? kRows - 1 - seed : kRows;
    for (std::int32_t& end : ends) {
      end = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(num_rows_ + 1));
    }
    if (seed == 0) std::fill(ends.begin(), ends.begin() + 7, 0);
    std::sort(ends.begin(), ends.end());
    if (seed == 0) std::fill(ends.begin() + 7, ends.end(), static_cast<std::int32_t>(num_rows_));
    ends.back() = static_cast<std::int32_t>(num_rows_);
    set("token", token);
    set("place", place);
    set("ends", ends);
  }

  void poison() {
    target_.poison_outputs();
    cuda::synchronize(*device_);  // with streams that do not wait for each other
  }

  void expect_right() {
    target_.fetch_outputs();
    for (const reference::Verdict& verdict :
         verify_program(program_, host_.bindings(), target_.bindings())) {
      EXPECT_TRUE(verdict.ok() || num_rows_ == 0) << verdict.first_failure;
    }
    // Rows of no group are as they were.
    for (const char* name : {"h", "y"}) {
      const TensorView& view = host_.view(name);
      const std::int64_t first = num_rows_ * view.shape[1];
      const auto* bits = static_cast<const std::uint16_t*>(view.data);
      EXPECT_TRUE(std::all_of(bits + first, bits + view.num_elements(), [](std::uint16_t each) {
        return each == 0xffff;
      })) << name;
    }
    const auto* placed = static_cast<const float*>(host_.view("z").data);
    const auto* place = static_cast<const std::int64_t*>(host_.view("place").data);
    for (std::int64_t row = num_rows_; row < kRows; ++row) {
      std::uint32_t bits;
      std::memcpy(&bits, placed + place[row] * host_.view("z").shape[1], sizeof bits);
      EXPECT_EQ(bits, 0xffffffffu) << "row " << row;
    }
  }

  std::int64_t num_rows_ = 0;  // of groups
};

TEST_F(GpuGrouped, ABlockOfExpertsIsTwoKernels) {
  const backends::Executable& executable = *program_.state().executable;
  const auto bound = backends::bind(executable.plan(), target_.bindings(), DeviceKind::cuda);
  const backends::RunPlan plan = executable.plan_for(bound);
  ASSERT_EQ(plan.how.size(), 2u);
  for (const std::string& how : plan.how) EXPECT_EQ(how.find("sm90_dense"), 0u) << how;
  EXPECT_TRUE(plan.plan.temporaries().empty());
}

TEST_F(GpuGrouped, OneCaptureReplaysWithOtherRoutings) {
  const CapturedRun graph(device_,
                          [&](Stream stream) { program_.run(target_.bindings(), stream); });
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    route(seed);
    poison();
    graph.replay();
    expect_right();
  }
}

// Groups whose ends fall or lie past the rows there are, and rows that are not there, are the
// caller's fault; nothing but the results may suffer.
TEST_F(GpuGrouped, WrongIntegersLeadNowhere) {
  route(5);
  std::vector<std::int32_t> ends(kGroups, 7);
  ends[0] = -3;
  ends[1] = 1 << 30;
  set("ends", ends);
  std::vector<std::int64_t> far(kRows, std::int64_t{1} << 40);
  far[1] = -(std::int64_t{1} << 40);
  set("token", far);
  set("place", far);
  poison();
  program_.run(target_.bindings());
  target_.fetch_outputs();  // throws where the device met an illegal address
  const auto* z = static_cast<const float*>(host_.view("z").data);
  EXPECT_TRUE(std::all_of(z, z + host_.view("z").num_elements(), [](float each) {
    std::uint32_t bits;
    std::memcpy(&bits, &each, sizeof bits);
    return bits == 0xffffffffu;
  }));
}

}  // namespace
}  // namespace epifuse
