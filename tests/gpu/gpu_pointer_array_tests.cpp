// Many problems in one launch on a GPU: sizes and addresses that change under one captured graph,
// and more problems than multiprocessors.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>

#include "backends/cuda/driver/device.h"
#include "check/verify_program.h"
#include "codegen/family.h"
#include "compile/program_state.h"
#include "epifuse/epifuse.h"
#include "tests/gpu/captured_run.h"
#include "tests/gpu/device_memory.h"

namespace epifuse {
namespace {

using testing::DeviceMemory;
using testing::HostTensor;

// Operands of every kind, and two results of which one is the pre-activation.
constexpr const char* kLayer = R"(
graph layer(x: bf16[M, K], w: bf16[N, K], b: bf16[N], c: f32[M, 1], r: bf16[M, N], s: scalar) {
  h0 = matmul x, w^T -> f32
  bf = cast b -> f32
  h = add h0, bf
  z = cast h -> bf16
  a = silu h
  d = mul a, c
  e = mul d, s
  rf = cast r -> f32
  f = add e, rf
  y = cast f -> bf16
  return z, y
})";

struct Size {
  std::int64_t m, n, k;
  std::int64_t pad = 0, margin = 0;  // of rows and of starts, in elements
};

// The parameter names a kernel family; empty: the usual one.
class GpuPointerArrays : public ::testing::TestWithParam<std::string> {
 protected:
  std::shared_ptr<const cuda::Device> device_ = cuda::Device::require();
  const Program program_ = compile(Graph::parse(kLayer), Target::cuda(), {.family = GetParam()});

  // Tensors of the problems, in the order of kNames.
  struct Set {
    std::list<HostTensor> kept;
    std::vector<std::vector<HostTensor*>> tensors;  // of each problem
    std::vector<std::vector<TensorView>> placed;
  };
  static constexpr const char* kNames[] = {"x", "w", "b", "c", "r", "z", "y"};
  static constexpr std::size_t kCount = std::size(kNames), kFirstOutput = 5;

  Set make(const std::vector<Size>& sizes, unsigned seed, DeviceMemory& memory) {
    Set set;
    std::mt19937_64 random(seed);
    for (const Size& size : sizes) {
      const auto [m, n, k, pad, margin] = size;
      const std::vector<std::int64_t> shapes[] = {{m, k}, {n, k}, {n},   {m, 1},
                                                  {m, n}, {m, n}, {m, n}};
      std::vector<HostTensor*>& tensors = set.tensors.emplace_back();
      std::vector<TensorView>& placed = set.placed.emplace_back();
      for (std::size_t i = 0; i < kCount; ++i) {
        const std::vector<std::int64_t>& shape = shapes[i];
        std::vector<std::int64_t> strides{1};
        if (shape.size() > 1) strides.insert(strides.begin(), shape[1] + pad);
        HostTensor& tensor =
            set.kept.emplace_back(i == 3 ? DType::f32 : DType::bf16, shape, strides, margin);
        if (i < kFirstOutput) tensor.fill_normal(random, i == 1 ? 0.1 : 1);
        tensors.push_back(&tensor);
        placed.push_back(memory.place(tensor));
      }
    }
    return set;
  }

  // The arrays of so many problems, at addresses that stay.
  class Arrays {
   public:
    Arrays(std::shared_ptr<const cuda::Device> device, std::size_t count)
        : count_(count), sizes_(device, count * 3 * sizeof(std::int64_t)) {
      problems.count = static_cast<std::int64_t>(count);
      problems.symbols = {"M", "N", "K"};
      problems.sizes = static_cast<const std::int64_t*>(sizes_.data());
      problems.scalars = {{"s", 0.5}};
      for (std::size_t i = 0; i < kCount; ++i) {
        data_.emplace_back(device, count * sizeof(void*));
        strides_.emplace_back(device, count * sizeof(std::int64_t));
        problems.tensors.push_back(
            {kNames[i], static_cast<const void* const*>(data_[i].data()),
             i == 2 ? nullptr : static_cast<const std::int64_t*>(strides_[i].data())});
      }
    }

    void fill(const std::vector<Size>& sizes, const Set& set) {
      std::vector<std::int64_t> numbers;
      for (const Size& size : sizes) numbers.insert(numbers.end(), {size.m, size.n, size.k});
      sizes_.copy_from_host(numbers.data(), numbers.size() * sizeof numbers[0]);
      for (std::size_t i = 0; i < kCount; ++i) {
        std::vector<const void*> data;
        std::vector<std::int64_t> strides;
        for (std::size_t p = 0; p < count_; ++p) {
          data.push_back(set.placed[p][i].data);
          strides.push_back(set.tensors[p][i]->strides().front());
        }
        data_[i].copy_from_host(data.data(), data.size() * sizeof data[0]);
        strides_[i].copy_from_host(strides.data(), strides.size() * sizeof strides[0]);
      }
    }

    PointerArrays problems;

   private:
    std::size_t count_;
    cuda::DeviceBuffer sizes_;
    std::vector<cuda::DeviceBuffer> data_, strides_;
  };

  void expect_right(Set& set, DeviceMemory& memory) {
    cuda::synchronize(*device_);
    for (std::size_t p = 0; p < set.tensors.size(); ++p) {
      SCOPED_TRACE(::testing::Message() << "problem " << p);
      std::vector<Binding> host{{"s", 0.5}}, placed{{"s", 0.5}};
      for (std::size_t i = 0; i < kCount; ++i) {
        HostTensor& tensor = *set.tensors[p][i];
        if (i >= kFirstOutput) {
          memory.fetch(tensor, set.placed[p][i]);
          EXPECT_TRUE(tensor.gaps_untouched()) << kNames[i];
        }
        host.push_back(tensor.bind(kNames[i]));
        placed.emplace_back(kNames[i], set.placed[p][i]);
      }
      for (const reference::Verdict& verdict : verify_problem(program_, host, placed)) {
        EXPECT_TRUE(verdict.ok() || set.tensors[p].back()->size() == 0) << verdict.first_failure;
      }
    }
  }
};

// Some without rows, some that no tensor map can address.
std::vector<Size> random_sizes(std::size_t count, std::mt19937_64& random, std::int64_t most) {
  std::vector<Size> sizes;
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
  };
  for (std::size_t i = 0; i < count; ++i) {
    Size size{below(most), 8 * below(most / 8), 8 * below(most / 8), 8 * below(3), 8 * below(2)};
    if (below(5) == 0) size = {below(most), below(most), below(most), below(4), below(8)};
    if (below(7) == 0) size.m = 0;
    sizes.push_back(size);
  }
  return sizes;
}

TEST_P(GpuPointerArrays, AreOneLaunch) {
  EXPECT_EQ(program_.explain_pointer_arrays().find("All problems in one launch"), 0u)
      << program_.explain_pointer_arrays();
}

TEST_P(GpuPointerArrays, OneCaptureReplaysWithOtherSizesAndAddresses) {
  constexpr std::size_t kPointerArrays = 24;
  Arrays arrays(device_, kPointerArrays);
  std::mt19937_64 random(11);
  const CapturedRun graph(
      device_, [&](Stream stream) { program_.run_pointer_arrays(arrays.problems, stream); });
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    DeviceMemory memory(device_);
    const std::vector<Size> sizes = random_sizes(kPointerArrays, random, 400);
    Set set = make(sizes, seed, memory);
    arrays.fill(sizes, set);
    cuda::synchronize(*device_);  // the replay's stream waits for no other
    graph.replay();
    expect_right(set, memory);
  }
}

TEST_P(GpuPointerArrays, MoreThanThereAreMultiprocessors) {
  constexpr std::size_t kPointerArrays = 512;
  Arrays arrays(device_, kPointerArrays);
  std::mt19937_64 random(12);
  DeviceMemory memory(device_);
  const std::vector<Size> sizes = random_sizes(kPointerArrays, random, 80);
  Set set = make(sizes, 1, memory);
  arrays.fill(sizes, set);
  program_.run_pointer_arrays(arrays.problems);
  expect_right(set, memory);
}

TEST_P(GpuPointerArrays, WithSizesThatTheHostKnows) {
  const std::vector<Size> sizes = {{1, 264, 512}, {17, 264, 512}, {127, 264, 512}, {0, 264, 512}};
  std::vector<std::int64_t> on_host;
  for (const Size& size : sizes) on_host.insert(on_host.end(), {size.m, size.n, size.k});
  Arrays arrays(device_, sizes.size());
  DeviceMemory memory(device_);
  Set set = make(sizes, 2, memory);
  arrays.fill(sizes, set);
  arrays.problems.host_sizes = on_host.data();
  program_.run_pointer_arrays(arrays.problems);
  expect_right(set, memory);
}

// A graph of two kernels runs one problem after another, which a capture cannot record.
TEST_P(GpuPointerArrays, OnesThatTheHostMustReadAreNotCaptured) {
  const Program program = compile(
      Graph::parse("graph g(x: f32[M, N]) {\n  y = row_sum x\n  return y\n}"), Target::cuda());
  PointerArrays problems;
  problems.count = 1;
  problems.symbols = {"M", "N"};
  const std::int64_t sizes[] = {0, 0};
  const void* const nothing[] = {nullptr};
  problems.sizes = sizes;
  problems.tensors = {{"x", nothing}, {"y", nothing}};
  EXPECT_THROW(
      CapturedRun(device_, [&](Stream stream) { program.run_pointer_arrays(problems, stream); }),
      UnavailableError);
}

// Beside the usual one those that run wherever it does.
std::vector<std::string> families() {
  std::vector<std::string> names{""};
  for (const auto& family : codegen::all_families().subspan(1)) names.emplace_back(family.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Families, GpuPointerArrays, ::testing::ValuesIn(families()),
                         [](const auto& param) {
                           return param.param.empty() ? "usual" : param.param;
                         });

}  // namespace
}  // namespace epifuse
