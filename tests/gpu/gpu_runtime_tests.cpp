// What a server asks of a program on a GPU: graph capture, streams, threads, the same bits every
// run, tensors that the fused kernel cannot address.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cuda/driver/device.h"
#include "backends/cuda/driver/memory.h"
#include "compile/program_state.h"
#include "epifuse/epifuse.h"
#include "tests/gpu/captured_run.h"
#include "tests/unit/jit/environment.h"
#include "tune/store.h"

namespace epifuse {
namespace {

constexpr std::int64_t kN = 192, kK = 128;

// y = silu(x @ w^T + b) + r, all bf16.
Graph layer() {
  const Dim m("M"), n("N"), k("K");
  Graph graph("layer");
  const Value x = graph.input("x", DType::bf16, {m, k});
  const Value w = graph.input("w", DType::bf16, {n, k});
  const Value y = silu(matmul(x, transpose(w)) + graph.input("b", DType::bf16, {n}));
  graph.output("y", y + graph.input("r", DType::bf16, {m, n}));
  return graph;
}

TensorView view(const cuda::DeviceBuffer& buffer, std::vector<std::int64_t> shape) {
  TensorView out;
  out.data = buffer.data();
  out.dtype = DType::bf16;
  out.shape = std::move(shape);
  out.device = DeviceKind::cuda;
  return out;
}

// The tensors of one call on the device, inputs filled with small numbers that depend on `seed`.
struct Call {
  Call(const std::shared_ptr<const cuda::Device>& device, std::int64_t m, unsigned seed,
       std::int64_t n = kN, std::int64_t k = kK)
      : rows(m),
        columns(n),
        depth(k),
        x(device, static_cast<std::size_t>(m * k) * 2),
        w(device, static_cast<std::size_t>(n * k) * 2),
        b(device, static_cast<std::size_t>(n) * 2),
        r(device, static_cast<std::size_t>(m * n) * 2),
        y(device, static_cast<std::size_t>(m * n) * 2) {
    for (cuda::DeviceBuffer* buffer : {&x, &w, &b, &r}) fill(*buffer, seed++);
    y.fill(0xff);
    cuda::synchronize(*device);
  }

  static void fill(cuda::DeviceBuffer& buffer, unsigned seed) {
    std::vector<std::uint16_t> bits(buffer.size_bytes() / 2);
    for (std::uint16_t& x : bits) {
      seed = seed * 1664525u + 1013904223u;
      x = static_cast<std::uint16_t>(0x3d00u + (seed >> 24) + (seed >> 8 & 0x8000u));
    }
    buffer.copy_from_host(bits.data(), buffer.size_bytes());
  }

  std::vector<Binding> bindings() const {
    return {{"x", view(x, {rows, depth})},
            {"w", view(w, {columns, depth})},
            {"b", view(b, {columns})},
            {"r", view(r, {rows, columns})},
            {"y", view(y, {rows, columns})}};
  }

  std::vector<std::uint16_t> result() const {
    std::vector<std::uint16_t> bits(y.size_bytes() / 2);
    y.copy_to_host(bits.data(), y.size_bytes());
    return bits;
  }

  std::int64_t rows, columns, depth;
  cuda::DeviceBuffer x, w, b, r, y;
};

class GpuRuntime : public ::testing::Test {
 protected:
  std::shared_ptr<const cuda::Device> device = cuda::Device::require();

  std::vector<std::uint16_t> run(const Program& program, Call& call, Stream stream = nullptr) {
    call.y.fill(0xff);
    cuda::synchronize(*device);
    program.run(call.bindings(), stream);
    cuda::synchronize(*device);
    return call.result();
  }

  // Captures one run of a program that never ran before, then replays it on new numbers.
  void expect_capture_replays(const Program& captured, const Program& plain, Call& call) {
    const CapturedRun graph(device, [&](Stream stream) { captured.run(call.bindings(), stream); });
    for (unsigned seed : {7u, 8u, 9u}) {
      Call::fill(call.x, seed);
      const auto expected = run(plain, call);
      call.y.fill(0xff);
      cuda::synchronize(*device);
      graph.replay();
      cuda::synchronize(*device);
      EXPECT_EQ(call.result(), expected) << "seed " << seed;
    }
  }
};

TEST_F(GpuRuntime, CaptureOfAFirstRunReplays) {
  Call call(device, 300, 1);
  expect_capture_replays(compile(layer(), Target::cuda()), compile(layer(), Target::cuda()), call);
}

TEST_F(GpuRuntime, CaptureOfAnUnfusedFirstRunReplays) {
  Call call(device, 300, 2);
  const CompileOptions unfused{Numerics::fast, false};
  expect_capture_replays(compile(layer(), Target::cuda(), unfused),
                         compile(layer(), Target::cuda(), unfused), call);
}

TEST_F(GpuRuntime, RepeatedRunsGiveTheSameBits) {
  // Sizes of which each is some schedule's: one wave, many, two widths, clusters, split-K.
  const std::vector<std::vector<std::int64_t>> sizes{
      {1000, kN, kK},    {3000, 1536, 512}, {2048, 4096, 2048}, {128, 4096, 4096},
      {512, 4096, 1024}, {64, 1032, 14336}, {6304, 1024, 1024}, {1000, 1192, 520}};
  const Program program = compile(layer(), Target::cuda());
  for (const auto& size : sizes) {
    Call call(device, size[0], 3, size[1], size[2]);
    const auto first = run(program, call);
    for (int i = 0; i < 300; ++i) {
      ASSERT_EQ(run(program, call), first) << size[0] << "x" << size[1] << "x" << size[2];
    }
  }
}

// Sums in float32, over tiles and batches of partial results: another order would show.
void expect_same_sums(const std::shared_ptr<const cuda::Device>& device, Value (*sum)(const Value&),
                      std::vector<std::int64_t> shape) {
  const Dim m("M");
  Graph graph("sums");
  const Value x = graph.input("x", DType::bf16, {m, kK});
  const Value h = matmul(x, transpose(graph.input("w", DType::bf16, {kN, kK})));
  const Value b = graph.input("b", DType::bf16, {kN}), r = graph.input("r", DType::bf16, {m, kN});
  graph.output("y", sum(cast(silu(h + b) + r, DType::f32)));
  const Program program = compile(graph, Target::cuda());
  EXPECT_EQ(program.num_kernels(), 2);
  const Call call(device, 1000, 6);
  std::vector<float> first(static_cast<std::size_t>(shape[0] * shape[1])), again = first;
  cuda::DeviceBuffer sums(device, first.size() * sizeof(float));
  std::vector<Binding> tensors = call.bindings();
  tensors.back().view = view(sums, std::move(shape));
  tensors.back().view.dtype = DType::f32;
  const auto run_into = [&](std::vector<float>& result) {
    sums.fill(0xff);
    cuda::synchronize(*device);
    program.run(tensors);
    cuda::synchronize(*device);
    sums.copy_to_host(result.data(), sums.size_bytes());
  };
  run_into(first);
  for (int i = 0; i < 100; ++i) {
    run_into(again);
    ASSERT_EQ(std::memcmp(again.data(), first.data(), sums.size_bytes()), 0) << "run " << i;
  }
}

TEST_F(GpuRuntime, RepeatedReductionsGiveTheSameBits) {
  expect_same_sums(device, row_sum, {1000, 1});
  expect_same_sums(device, col_sum, {1, kN});
}

// Eight threads that queue runs on three streams, one of them the legacy one.
void expect_threads_share(const std::shared_ptr<const cuda::Device>& device,
                          const Program& program) {
  constexpr int kThreads = 8, kRuns = 50;
  jit::CuStream streams[3] = {};
  for (int i : {1, 2}) device->check(device->api().stream_create(&streams[i], 0), "cuStreamCreate");
  std::vector<std::unique_ptr<Call>> calls;
  std::vector<std::vector<std::uint16_t>> expected;
  for (unsigned i = 0; i < kThreads; ++i) {
    calls.push_back(std::make_unique<Call>(device, 17 + 100 * i, 10 * i));
    program.run(calls.back()->bindings());
    cuda::synchronize(*device);
    expected.push_back(calls.back()->result());
    calls.back()->y.fill(0xff);
  }
  cuda::synchronize(*device);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < calls.size(); ++t) {
    threads.emplace_back([&program, &call = calls[t], stream = streams[t % 3]] {
      for (int i = 0; i < kRuns; ++i) program.run(call->bindings(), stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  cuda::synchronize(*device);
  for (std::size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(calls[i]->result(), expected[i]);
  for (int i : {1, 2}) device->api().stream_destroy(streams[i]);
}

TEST_F(GpuRuntime, ThreadsShareAProgram) {
  expect_threads_share(device, compile(layer(), Target::cuda()));
}

// Whose runs need memory for what one kernel hands to the next.
TEST_F(GpuRuntime, ThreadsShareAnUnfusedProgram) {
  expect_threads_share(device,
                       compile(layer(), Target::cuda(), CompileOptions{Numerics::fast, false}));
}

// A residual two bytes off alignment: another variant of the kernel reads it, and says so.
TEST_F(GpuRuntime, UnalignedTensorsGetAVariantThatIsRight) {
  const Program program = compile(layer(), Target::cuda());
  Call call(device, 64, 4);
  const std::size_t bytes = call.r.size_bytes();
  cuda::DeviceBuffer misaligned(device, bytes + 2);
  std::vector<std::uint16_t> bits(bytes / 2);
  call.r.copy_to_host(bits.data(), bytes);
  misaligned.copy_from_host(bits.data(), bytes, 2);
  std::vector<Binding> tensors = call.bindings();
  for (Binding& binding : tensors) {
    if (binding.name == "r") binding.view.data = static_cast<char*>(misaligned.data()) + 2;
  }
  const backends::Executable& executable = *program.state().executable;
  const auto bound = backends::bind(executable.plan(), tensors, DeviceKind::cuda);
  const backends::RunPlan as_run = executable.plan_for(bound);
  EXPECT_EQ(as_run.splits.size(), 0u);
  ASSERT_EQ(as_run.how.size(), 1u);
  EXPECT_NE(as_run.how[0].find("read element by element"), std::string::npos) << as_run.how[0];

  const auto aligned = run(program, call);
  call.y.fill(0xff);
  cuda::synchronize(*device);
  program.run(tensors);
  cuda::synchronize(*device);
  const auto result = call.result();
  int num_far = 0;  // another config may add up K in another order: neighbours in bf16 at most
  for (std::size_t i = 0; i < result.size(); ++i) {
    num_far += std::abs(static_cast<int>(result[i]) - static_cast<int>(aligned[i])) > 2;
  }
  EXPECT_LT(num_far, static_cast<int>(result.size() / 100));
}

// Every kernel behind the one before it on a stream, without a gap to hide a missing wait in.
TEST_F(GpuRuntime, LaunchesThatOverlapWaitForWhatTheyRead) {
  const Program program = compile(layer(), Target::cuda());
  Call first(device, 2000, 5), second(device, 2000, 6);
  const auto expected_first = run(program, first), expected_second = run(program, second);
  std::vector<Binding> into_first = second.bindings();
  into_first.back() = first.bindings().back();  // both write first.y: the later one wins
  for (int i = 0; i < 50; ++i) {
    program.run(into_first);
    program.run(first.bindings());
  }
  cuda::synchronize(*device);
  EXPECT_EQ(first.result(), expected_first);
  program.run(first.bindings());
  program.run(into_first);
  cuda::synchronize(*device);
  EXPECT_EQ(first.result(), expected_second);
}

// Kernels load full tiles ahead of those that they compute, never ones that are stored meanwhile.
TEST_F(GpuRuntime, AResidualMayBeOverwrittenInPlace) {
  for (const bool fuse : {true, false}) {
    CompileOptions options;
    options.fuse = fuse;
    const Program program = compile(layer(), Target::cuda(), options);
    for (const auto& [rows, columns] :
         {std::pair{1, 192}, {300, 192}, {2000, 1160}, {333, 4097}, {4096, 4096}}) {
      Call call(device, rows, 11, columns);
      const auto expected = run(program, call);
      std::vector<Binding> in_place = call.bindings();
      in_place.back().view.data = call.r.data();
      program.run(in_place);
      cuda::synchronize(*device);
      std::vector<std::uint16_t> came(expected.size());
      call.r.copy_to_host(came.data(), call.r.size_bytes());
      EXPECT_EQ(came, expected) << rows << "x" << columns << (fuse ? "" : ", not fused");
    }
  }
}

TEST_F(GpuRuntime, AnOutputOverAnOperandIsRefused) {
  const Program program = compile(layer(), Target::cuda());
  Call call(device, 192, 12, 128, 128);
  std::vector<Binding> tensors = call.bindings();
  tensors.back().view.data = call.x.data();
  EXPECT_THROW(program.run(tensors), ArgumentError);
  tensors.back().view.data = call.r.data();
  EXPECT_THROW(program.tune(tensors), ArgumentError);  // would change what later runs read
}

class GpuTune : public GpuRuntime {
 protected:
  GpuTune() : cache_("EPIFUSE_CACHE", folder_.path().string()), threads_("EPIFUSE_THREADS", "16") {}
  jit::TemporaryFolder folder_;
  jit::ScopedVariable cache_, threads_;  // with few threads nothing is compiled to be measured
};

std::string grounds(const Program& program, const Call& call) {
  const backends::Executable& executable = *program.state().executable;
  const auto bound = backends::bind(executable.plan(), call.bindings(), DeviceKind::cuda);
  const backends::RunPlan as_run = executable.plan_for(bound);
  return as_run.splits.empty() ? as_run.grounds.at(0) : as_run.splits[0].sentence;
}

TEST_F(GpuTune, WhatWasMeasuredIsKeptForTheseSizesAndIsRight) {
  const Program program = compile(layer(), Target::cuda());
  Call call(device, 500, 7), other(device, 600, 7);
  const auto before = run(program, call);
  EXPECT_EQ(grounds(program, call).find("measured"), std::string::npos);
  const std::vector<std::string> lines = program.tune(call.bindings());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find(" runs by "), std::string::npos) << lines[0];
  EXPECT_NE(grounds(program, call).find("measured"), std::string::npos);
  EXPECT_EQ(grounds(program, other).find("measured"), std::string::npos);
  // A program compiled later follows it.
  const Program later = compile(layer(), Target::cuda());
  EXPECT_EQ(grounds(later, call), grounds(program, call));
  const auto after = run(program, call);
  EXPECT_EQ(run(later, call), after);
  int num_far = 0;  // the choice may round the product once more
  for (std::size_t i = 0; i < after.size(); ++i) {
    num_far += std::abs(static_cast<int>(after[i]) - static_cast<int>(before[i])) > 16;
  }
  EXPECT_LT(num_far, static_cast<int>(after.size() / 100));
}

CompileOptions measuring(Tune tune) {
  CompileOptions options;
  options.tune = tune;
  return options;
}

TEST_F(GpuTune, TheFirstUseOfSizesMeasuresAndKeepsTheChoice) {
  const Program program = compile(layer(), Target::cuda(), measuring(Tune::first_use));
  Call call(device, 500, 7), in_its_class(device, 512, 7);
  run(program, call);
  EXPECT_NE(grounds(program, call).find("measured"), std::string::npos);
  const tune::TuneStore store(folder_.path());
  ASSERT_EQ(store.list().size(), 1u);
  run(program, in_its_class);
  EXPECT_EQ(store.list().size(), 1u);
  const Program later = compile(layer(), Target::cuda(), measuring(Tune::off));
  EXPECT_EQ(grounds(later, in_its_class), grounds(program, call));
  EXPECT_EQ(run(later, call), run(program, call));
}

TEST_F(GpuTune, PreparingMeasuresWhereThatIsAskedFor) {
  Call call(device, 300, 7);
  for (const auto& [tune, count] : {std::pair(Tune::off, 0u), std::pair(Tune::compile, 1u)}) {
    const Program program = compile(layer(), Target::cuda(), measuring(tune));
    program.prepare(call.bindings());
    EXPECT_EQ(tune::TuneStore(folder_.path()).list().size(), count) << name(tune);
  }
}

TEST_F(GpuTune, ACaptureIsNotMeasuredInAndNotDisturbed) {
  const Program program = compile(layer(), Target::cuda(), measuring(Tune::first_use));
  Call call(device, 500, 7), other(device, 900, 7);
  const CapturedRun captured(device, [&](Stream stream) {
    std::thread([&] { program.prepare(other.bindings()); }).join();
    program.run(call.bindings(), stream);
  });
  EXPECT_EQ(tune::TuneStore(folder_.path()).list().size(), 1u) << "of the thread beside it";
  EXPECT_EQ(grounds(program, call).find("measured"), std::string::npos);
  captured.replay();
  cuda::synchronize(*device);
}

TEST_F(GpuTune, AnOutputThatIsAnInputIsRefused) {
  const Program program = compile(layer(), Target::cuda());
  Call call(device, 100, 8);
  std::vector<Binding> tensors = call.bindings();
  tensors.back() = Binding("y", view(call.r, {call.rows, kN}));
  EXPECT_THROW(program.tune(tensors), ArgumentError);
}

}  // namespace
}  // namespace epifuse
