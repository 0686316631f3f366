#include "tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "backends/cuda/driver/memory.h"
#include "base/float_types.h"
#include "base/parallel.h"
#include "base/printable.h"
#include "base/strided.h"
#include "epifuse/error.h"
#include "ir/integers.h"
#include "ir/views.h"
#include "npy.h"

namespace epifuse::cli {
namespace {

constexpr double kScalarValue = 0.5;
constexpr std::int64_t kRandomBlock = 1 << 16;
constexpr unsigned char kPoison = 0xff;  // NaN in every float dtype

// Normal numbers, the same for a seed whatever the number of threads.
void fill_normal(const TensorView& view, double scale, std::uint64_t seed) {
  const std::int64_t count = view.num_elements();
  const std::int64_t blocks = (count + kRandomBlock - 1) / kRandomBlock;
  parallel_for(blocks, [&](std::int64_t block, int) {
    std::mt19937_64 random(seed * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(block));
    std::normal_distribution<float> normal;
    const std::int64_t end = std::min(count, (block + 1) * kRandomBlock);
    for (std::int64_t i = block * kRandomBlock; i < end; ++i) {
      const double x = view.dtype == DType::boolean ? (random() & 1)
                       : view.dtype == DType::i8    ? static_cast<std::int8_t>(random())
                                                    : scale * normal(random);
      store_element(view.data, view.dtype, i, x);
    }
  });
}

void fill_integers(const TensorView& view, const ir::IntegerUse& use, const Sizes& sizes,
                   std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<std::int64_t> values =
      ir::sample_integers(use, view.num_elements(), sizes, random);
  const std::int64_t stride = view.strides_or_dense().back();
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_element(view.data, view.dtype, static_cast<std::int64_t>(i) * stride,
                  static_cast<double>(values[i]));
  }
}

// Values that are multiplied from the right, and the size of K there.
std::map<ir::ValueId, Dim> weights(const ir::Graph& graph) {
  std::map<ir::ValueId, Dim> out;
  for (const ir::Node& node : graph.nodes) {
    if (!ir::is_matmul(node.op)) continue;
    const ir::Shape& shape = graph[node.args[1]].type.shape;
    out.emplace(ir::storage(graph, node.args[1]),
                node.transpose_b ? shape[shape.size() - 1] : shape[shape.size() - 2]);
  }
  return out;
}

// A tensor at these sizes, which has no memory yet.
struct Sized {
  TensorView view;
  std::int64_t bytes = 0;
};

// Empty strides are dense ones. Cannot wrap: ir::eval and ir::eval_strides throw ArgumentError
// above kMaxElements. Throws it for negative strides.
Sized sized(const ir::TensorType& type, const Sizes& sizes) {
  Sized tensor;
  tensor.view.dtype = type.dtype;
  const std::vector<std::int64_t>& shape = tensor.view.shape = ir::eval(type.shape, sizes);
  const std::vector<std::int64_t>& strides = tensor.view.strides =
      type.strides.empty() ? TensorView::dense_strides(shape)
                           : ir::eval_strides(type.strides, type.shape, sizes);
  if (std::ranges::find(shape, 0) != shape.end()) return tensor;
  const Reach reach = checked_reach(shape, strides).value();
  if (reach.first < 0) {
    throw ArgumentError(
        fmt::format("expected strides of at least 0, got [{}]", fmt::join(strides, ", ")));
  }
  tensor.bytes = (reach.last + 1) * static_cast<std::int64_t>(size_bytes(type.dtype));
  return tensor;
}

// Inputs in the order of their nodes, then outputs. Refuses what this machine cannot hold: Linux
// would grant the memory, and kill the process later.
std::vector<Sized> sized_tensors(const ir::Graph& graph, const Sizes& sizes) {
  std::vector<Sized> tensors;
  std::int64_t bytes = 0;
  bool overflows = false;
  const auto add = [&](const char* role, const std::string& name, const ir::TensorType& type) {
    try {
      tensors.push_back(sized(type, sizes));
    } catch (const ArgumentError& error) {
      throw ArgumentError(fmt::format("{} {}: {}", role, name, error.what()));
    }
    overflows |= __builtin_add_overflow(bytes, tensors.back().bytes, &bytes);
  };
  for (const ir::Node& node : graph.nodes) {
    if (node.op == ir::Op::input) add("input", node.name, node.type);
  }
  for (const ir::Output& output : graph.outputs) {
    const ir::TensorType& type = graph[output.value].type;
    add("output", output.name, {type.dtype, type.shape, {}});  // outputs are dense
  }
  const std::int64_t available = ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE);
  if (!overflows && bytes <= available) return tensors;
  throw ArgumentError(
      fmt::format("graph {}: tensors of these sizes need {} bytes, this machine has {}", graph.name,
                  overflows ? "over 2^63" : fmt::format("{}", bytes), available));
}

void check_input_names(const ir::Graph& graph, const InputOptions& options) {
  for (const auto& [name, path] : options.files) {
    const bool found =
        std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const ir::Node& node) {
          return node.name == name && (node.op == ir::Op::input || node.op == ir::Op::scalar);
        });
    if (found) continue;
    throw ArgumentError(fmt::format("--input {}={}: graph {} has no input of that name",
                                    printable(name), printable(path), graph.name));
  }
}

}  // namespace

HostTensors::HostTensors(const ir::Graph& graph, const Sizes& sizes, const InputOptions& options) {
  check_input_names(graph, options);
  std::vector<Sized> tensors = sized_tensors(graph, sizes);
  auto next = tensors.begin();
  const auto right = weights(graph);
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const ir::Node& node = graph.nodes[id];
    const auto file = options.files.find(node.name);
    if (node.op == ir::Op::scalar) {
      bindings_.emplace_back(node.name, file == options.files.end()
                                            ? kScalarValue
                                            : read_scalar(file->second, node.name));
      buffers_.emplace_back();
    }
    if (node.op != ir::Op::input) continue;
    const auto weight = right.find(static_cast<ir::ValueId>(id));
    const double k = weight == right.end() ? 1.0 : static_cast<double>(weight->second.eval(sizes));
    add(node.name, std::move(next->view), next->bytes);
    ++next;
    const auto deviation = options.deviations.find(node.name);
    fill_input(node, options,
               deviation == options.deviations.end() ? 1.0 / std::sqrt(std::max(k, 1.0))
                                                     : deviation->second);
    if (is_integer(node.type.dtype) && file == options.files.end()) {
      fill_integers(bindings_.back().view, ir::use_of_integers(graph, static_cast<ir::ValueId>(id)),
                    sizes, options.seed + buffers_.size());
    }
  }
  first_output_ = bindings_.size();
  for (const ir::Output& output : graph.outputs) {
    add(output.name, std::move(next->view), next->bytes);
    ++next;
  }
  poison_outputs();
}

void HostTensors::add(const std::string& name, TensorView view, std::int64_t bytes) {
  buffers_.emplace_back(static_cast<std::size_t>(bytes));
  view.data = buffers_.back().data();
  bindings_.emplace_back(name, std::move(view));
}

// The one that was added last.
void HostTensors::fill_input(const ir::Node& node, const InputOptions& options, double scale) {
  TensorView view = bindings_.back().view;
  const std::size_t bytes = buffers_.back().size();
  const auto file = options.files.find(node.name);
  if (file != options.files.end()) return read_tensor(file->second, node.name, view, bytes);
  view.shape = {static_cast<std::int64_t>(bytes / size_bytes(node.type.dtype))};
  view.strides.clear();
  fill_normal(view, scale, options.seed + buffers_.size());
}

void HostTensors::poison_outputs() {
  for (std::size_t i = first_output_; i < buffers_.size(); ++i) {
    std::fill(buffers_[i].begin(), buffers_[i].end(), kPoison);
  }
}

const TensorView& HostTensors::view(const std::string& name) const {
  for (const Binding& binding : bindings_) {
    if (binding.name == name) return binding.view;
  }
  throw ArgumentError(fmt::format("no tensor is called '{}'", name));
}

struct TargetTensors::Device {
  std::shared_ptr<const cuda::Device> device = cuda::Device::require();
  std::vector<cuda::DeviceBuffer> buffers;  // beside the bindings
};

TargetTensors::TargetTensors(HostTensors& host, const Target& target)
    : host_(host), bindings_(host.bindings()) {
  if (target.kind == DeviceKind::cpu) return;
  device_ = std::make_unique<Device>();
  for (std::size_t i = 0; i < bindings_.size(); ++i) {
    device_->buffers.emplace_back(device_->device, host.bytes(i));
    cuda::DeviceBuffer& buffer = device_->buffers.back();
    TensorView& view = bindings_[i].view;
    view.device = DeviceKind::cuda;
    view.data = host.bytes(i) == 0 ? nullptr : buffer.data();
    if (view.data != nullptr) buffer.copy_from_host(host.bindings()[i].view.data, host.bytes(i));
  }
}

TargetTensors::~TargetTensors() = default;

void TargetTensors::poison_outputs() {
  if (!device_) return host_.poison_outputs();
  for (std::size_t i = 0; i < bindings_.size(); ++i) {
    if (host_.is_output(i) && host_.bytes(i) > 0) device_->buffers[i].fill(kPoison);
  }
}

void TargetTensors::fetch_outputs() {
  if (!device_) return;
  cuda::synchronize(*device_->device);
  for (std::size_t i = 0; i < bindings_.size(); ++i) {
    if (!host_.is_output(i) || host_.bytes(i) == 0) continue;
    device_->buffers[i].copy_to_host(host_.bindings()[i].view.data, host_.bytes(i));
  }
}

}  // namespace epifuse::cli
