// Calls of one form on a GPU with tensors that move: nothing is encoded anew, and results are
// right.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "backends/cuda/driver/device.h"
#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/driver/memory.h"
#include "codegen/patches.h"
#include "compile/program_state.h"
#include "epifuse/epifuse.h"

namespace epifuse {
namespace {

constexpr std::int64_t kN = 192, kK = 128;

// y = silu(x @ w^T + b) * alpha + r, all bf16.
Graph layer() {
  const Dim m("M");
  Graph graph("moving");
  const Value x = graph.input("x", DType::bf16, {m, kK});
  const Value w = graph.input("w", DType::bf16, {kN, kK});
  const Value y = silu(matmul(x, transpose(w)) + graph.input("b", DType::bf16, {kN}));
  graph.output("y", y * graph.scalar("alpha") + graph.input("r", DType::bf16, {m, kN}));
  return graph;
}

// The tensors of a call in memory of its own, each `shift` bytes behind its start.
struct Call {
  Call(const std::shared_ptr<const cuda::Device>& device, std::int64_t rows_, unsigned seed,
       std::int64_t shift_ = 0)
      : rows(rows_), shift(shift_) {
    const std::int64_t counts[] = {rows * kK, kN * kK, kN, rows * kN, rows * kN};
    for (const std::int64_t count : counts) {
      std::vector<std::uint16_t> bits(static_cast<std::size_t>(count + shift / 2));
      for (std::uint16_t& each : bits) {
        seed = seed * 1664525u + 1013904223u;
        each = static_cast<std::uint16_t>(0x3d00u + (seed >> 24) + (seed >> 8 & 0x8000u));
      }
      buffers.emplace_back(device, bits.size() * 2);
      buffers.back().copy_from_host(bits.data(), bits.size() * 2);
    }
  }

  TensorView view(std::size_t i, std::vector<std::int64_t> shape) const {
    return {static_cast<char*>(buffers[i].data()) + shift,
            DType::bf16,
            std::move(shape),
            {},
            DeviceKind::cuda};
  }
  std::vector<Binding> bindings(double alpha = 0.5) const {
    return {{"x", view(0, {rows, kK})}, {"w", view(1, {kN, kK})},   {"b", view(2, {kN})},
            {"r", view(3, {rows, kN})}, {"y", view(4, {rows, kN})}, {"alpha", alpha}};
  }
  std::vector<std::uint16_t> result(std::size_t i = 4) const {
    std::vector<std::uint16_t> bits(static_cast<std::size_t>(rows * kN));
    buffers[i].copy_to_host(bits.data(), bits.size() * 2, static_cast<std::size_t>(shift));
    return bits;
  }

  std::int64_t rows, shift;
  std::vector<cuda::DeviceBuffer> buffers;
};

class GpuMoving : public ::testing::Test {
 protected:
  std::shared_ptr<const cuda::Device> device = cuda::Device::require();

  static Program compiled(bool fuse = true) {
    CompileOptions options;
    options.fuse = fuse;
    return compile(layer(), Target::cuda(), options);
  }
  static std::int64_t num_encoded(const Program& program) {
    return program.state().executable->num_encoded();
  }
  std::vector<std::uint16_t> run(const Program& program, const Call& call, double alpha = 0.5) {
    program.run(call.bindings(alpha));
    cuda::synchronize(*device);
    return call.result();
  }
};

codegen::TensorMapRequest request(std::size_t i, DType dtype, bool batched) {
  codegen::TensorMapRequest out;
  out.offset = i * sizeof(jit::CuTensorMap);
  out.dtype = dtype;
  out.rows = 300;
  out.cols = 512;
  out.row_stride = 528;
  out.box_rows = 64;
  out.box_cols = static_cast<int>(128 / size_bytes(dtype));
  out.batched = batched;
  if (batched) {
    out.inner = 3;
    out.outer = 5;
    out.inner_stride = 528 * 300;
    out.outer_stride = 3 * 528 * 300;
  }
  return out;
}

TEST_F(GpuMoving, PatchedMapsAreThoseEncodedAfresh) {
  codegen::Launch launch;
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32, DType::e4m3}) {
    for (const bool batched : {false, true}) {
      launch.maps.push_back(request(launch.maps.size(), dtype, batched));
    }
  }
  launch.maps.push_back(request(launch.maps.size(), DType::f32, false));
  launch.maps.back().rounds_to_tf32 = true;
  launch.maps.push_back(request(launch.maps.size(), DType::bf16, false));
  launch.maps.back().swizzled = false;
  const std::size_t count = launch.maps.size();
  launch.params.resize(count * sizeof(jit::CuTensorMap));
  const auto at = [&](const std::vector<std::uintptr_t>& bases) {
    codegen::Launch out = launch;
    for (std::size_t i = 0; i < count; ++i) {
      out.maps[i].data = reinterpret_cast<const void*>(bases[i] + 32 * i);
    }
    return out;
  };
  std::vector<std::uintptr_t> placeholders, others, first, second;
  for (std::size_t i = 0; i < count; ++i) {
    void* const data = codegen::placeholder(i);
    placeholders.push_back(reinterpret_cast<std::uintptr_t>(data));
    others.push_back(reinterpret_cast<std::uintptr_t>(codegen::second_placeholder(data)));
    first.push_back((std::uintptr_t{0x7f12} << 32) + (i << 24));
    second.push_back((std::uintptr_t{0x7e98} << 32) + (i << 20) + 0x12345600);
  }
  const cuda::PatchedCall call = cuda::prepare_call(
      *device, nullptr, codegen::find_patches(at(placeholders), at(others)), {first, {}});
  EXPECT_EQ(call.call.params, cuda::prepare_call(*device, nullptr, at(first)).params);
  for (const auto& bases : {second, first, std::vector<std::uintptr_t>(count, 256)}) {
    const auto fresh = cuda::prepare_call(*device, nullptr, at(bases)).params;
    std::vector<jit::CuTensorMap> params(count);
    cuda::write_params(*device, call, {bases, {}}, params.front().bytes);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(std::memcmp(params[i].bytes, fresh.data() + i * sizeof params[i], sizeof params[i]),
                0)
          << "map " << i;
    }
  }
}

TEST_F(GpuMoving, NothingIsEncodedAfterTheFirstCallAtASize) {
  for (const bool fuse : {true, false}) {
    const Program program = compiled(fuse);
    std::vector<std::unique_ptr<Call>> kept;  // so that no two share an address
    for (const std::int64_t rows : {300, 64}) {
      kept.push_back(std::make_unique<Call>(device, rows, 1));
      run(program, *kept.back());
      const std::int64_t encoded = num_encoded(program);
      EXPECT_GT(encoded, fuse ? 0 : -1);
      for (unsigned seed = 2; seed < 7; ++seed) {
        kept.push_back(std::make_unique<Call>(device, rows, seed));
        const auto came = run(program, *kept.back(), seed);
        EXPECT_EQ(came, run(compiled(fuse), *kept.back(), seed)) << rows << ", seed " << seed;
      }
      EXPECT_EQ(num_encoded(program), encoded);
    }
  }
}

TEST_F(GpuMoving, AnotherAlignmentIsAnotherForm) {
  const Program program = compiled();
  const Call aligned(device, 300, 3), misaligned(device, 300, 3, 16), odd(device, 300, 3, 2);
  run(program, aligned);
  for (const Call* call : {&misaligned, &odd, &aligned}) {
    EXPECT_EQ(run(program, *call), run(compiled(), *call)) << call->shift;
  }
}

TEST_F(GpuMoving, ResidualsInPlaceMayMove) {
  const Program program = compiled();
  for (unsigned seed = 1; seed < 6; ++seed) {
    const Call call(device, 300, seed);
    const auto expected = run(program, call);
    std::vector<Binding> tensors = call.bindings();
    tensors[4].view = tensors[3].view;
    program.run(tensors);
    cuda::synchronize(*device);
    EXPECT_EQ(call.result(3), expected) << seed;
  }
}

TEST_F(GpuMoving, AnOverlapIsRefusedAfterAGoodCall) {
  const Program program = compiled();
  const Call call(device, 300, 4);
  run(program, call);
  std::vector<Binding> tensors = call.bindings();
  tensors[4].view.data = static_cast<char*>(tensors[3].view.data) + 256;  // beside its place
  EXPECT_THROW(program.run(tensors), ArgumentError);
}

}  // namespace
}  // namespace epifuse
