// Memory of its own for all tensors of a call, to measure on.
#include "backends/cuda/choose/scratch_tensors.h"

#include <algorithm>
#include <memory>
#include <random>

#include "backends/cuda/choose/alike.h"
#include "base/float_types.h"
#include "base/strided.h"
#include "ir/integers.h"

namespace epifuse::cuda {
namespace {

// Of random numbers, repeated. A prime: rows of no usual length are the same, so sums do not grow
// with K until 8-bit tensor cores lose what is added to them.
constexpr std::size_t kBlockElements = 65521;
constexpr double kScalar = 0.5;
constexpr std::size_t kSampleBytes = std::size_t{64} << 10, kUnit = 16;  // all elements divide it

// With the bytes before an address that is no multiple of the unit.
std::optional<std::size_t> bytes_of(const codegen::BoundTensor& tensor, DType dtype) {
  const ir::Layout& layout = tensor.layout;
  if (std::ranges::find(layout.shape, 0) != layout.shape.end()) return 0;
  const std::optional<Reach> reach = checked_reach(layout.shape, layout.strides);
  if (!reach || reach->first < 0) return std::nullopt;
  return codegen::kAddressUnit + static_cast<std::size_t>(reach->last + 1) * size_bytes(dtype);
}

// Operands have numbers of their own: the product of two that are the same has large sums.
std::vector<unsigned char> random_block(DType dtype, std::size_t number) {
  std::vector<unsigned char> block(kBlockElements * size_bytes(dtype));
  std::mt19937_64 random(number + 1);
  std::uniform_real_distribution<double> numbers(-1, 1);
  for (std::size_t i = 0; i < kBlockElements; ++i) {
    const double x = dtype == DType::boolean ? static_cast<double>(random() & 1)
                     : dtype == DType::i8    ? static_cast<std::int8_t>(random())
                                             : numbers(random);
    store_element(block.data(), dtype, static_cast<std::int64_t>(i), x);
  }
  return block;
}

// Integers of one dim, as ir::sample_integers draws them.
std::vector<unsigned char> integers(const ir::Graph& graph, ir::ValueId id,
                                    const codegen::BoundTensor& tensor, const Sizes& sizes) {
  std::mt19937_64 random(1);
  const DType dtype = graph[id].type.dtype;
  const ir::Layout& layout = tensor.layout;
  const std::int64_t count = layout.shape.empty() ? 1 : layout.shape.back();
  const std::int64_t stride = layout.strides.empty() ? 1 : layout.strides.back();
  const auto values = ir::sample_integers(ir::use_of_integers(graph, id), count, sizes, random);
  const std::int64_t length = (count - 1) * stride + 1;
  std::vector<unsigned char> out(static_cast<std::size_t>(length) * size_bytes(dtype));
  for (std::int64_t i = 0; i < count; ++i) {
    store_element(out.data(), dtype, i * stride,
                  static_cast<double>(values[static_cast<std::size_t>(i)]));
  }
  return out;
}

// The block once, then what is there doubles. `block` must live until the stream is done.
void fill(const Device& device, jit::CuDevicePtr to, std::size_t bytes,
          const std::vector<unsigned char>& block, jit::CuStream stream) {
  std::size_t done = std::min(bytes, block.size());
  device.check(device.api().memcpy_host_to_device_async(to, block.data(), done, stream),
               "cuMemcpyHtoDAsync");
  while (done < bytes) {
    const std::size_t next = std::min(done, bytes - done);
    device.check(device.api().memcpy_device_to_device_async(to + done, to, next, stream),
                 "cuMemcpyDtoDAsync");
    done += next;
  }
}

}  // namespace

std::optional<std::size_t> scratch_bytes(const plan::Plan& plan, const backends::CallForm& form) {
  std::size_t sum = 0;
  for (const ir::ValueId id : form.tensors) {
    const auto bytes = bytes_of(form.bound[id], plan.graph[id].type.dtype);
    if (!bytes) return std::nullopt;
    sum += *bytes;
  }
  return sum;
}

ScratchTensors::ScratchTensors(const std::shared_ptr<const Device>& device, const plan::Plan& plan,
                               const backends::CallForm& form, jit::CuStream stream)
    : device_(device), scalars_(form.scalars.size(), kScalar), bound_(form.bound) {
  const ir::Graph& graph = plan.graph;
  std::vector<std::vector<unsigned char>> blocks;  // until they are copied
  for (const ir::ValueId id : form.tensors) {
    const codegen::BoundTensor& tensor = form.bound[id];
    const DType dtype = graph[id].type.dtype;
    const std::size_t bytes = bytes_of(tensor, dtype).value();
    const DeviceBuffer& buffer = buffers_.emplace_back(device, bytes);
    bases_.push_back(bytes == 0 ? codegen::kAddressUnit
                                : reinterpret_cast<std::uintptr_t>(buffer.data()));
    if (bytes == 0) continue;
    if (graph[id].op != ir::Op::input) {
      outputs_.push_back({buffers_.size() - 1, dtype});
      continue;
    }
    const bool counts = is_integer(dtype);
    blocks.push_back(counts ? integers(graph, id, tensor, form.bound.sizes)
                            : random_block(dtype, blocks.size()));
    const std::size_t before = counts ? backends::remainder_of(tensor.data) : 0;
    const std::size_t length = counts ? blocks.back().size() : bytes;
    fill(*device, buffer.pointer() + before, length, blocks.back(), stream);
  }
  device->check(device->api().stream_synchronize(stream), "cuStreamSynchronize");
  backends::set_values(form.bound, form, values(), bound_);
}

void ScratchTensors::poison(jit::CuStream stream) {
  constexpr unsigned char kNaN = 0xff;
  for (const Output& output : outputs_) buffers_[output.buffer].fill(kNaN, stream);
}

ScratchTensors::Samples ScratchTensors::samples(jit::CuStream stream) const {
  constexpr std::size_t kParts = 4;
  Samples samples;
  for (const Output& output : outputs_) {
    const DeviceBuffer& buffer = buffers_[output.buffer];
    const std::size_t bytes = buffer.size_bytes() / kUnit * kUnit;
    const std::size_t length = std::min(kSampleBytes, bytes);
    for (std::size_t part = 0; part < kParts; ++part) {
      const std::size_t begin = (bytes - length) * part / (kParts - 1) / kUnit * kUnit;
      std::vector<unsigned char>& to = samples.emplace_back(length);
      device_->check(device_->api().memcpy_device_to_host_async(to.data(), buffer.pointer() + begin,
                                                                length, stream),
                     "cuMemcpyDtoHAsync");
    }
  }
  device_->check(device_->api().stream_synchronize(stream), "cuStreamSynchronize");
  return samples;
}

bool ScratchTensors::are_alike(const Samples& a, const Samples& b) const {
  const std::size_t parts = outputs_.empty() ? 1 : a.size() / outputs_.size();
  const bool quantises = std::ranges::any_of(outputs_, is_fp8, &Output::dtype);
  const FarOff far_off = quantises ? FarOff::few : FarOff::none;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const DType dtype = outputs_[i / parts].dtype;
    if (dtype != DType::boolean && !cuda::are_alike(a[i], b[i], dtype, far_off)) return false;
  }
  return true;
}

}  // namespace epifuse::cuda
