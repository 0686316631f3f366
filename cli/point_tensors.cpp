#include "point_tensors.h"

#include <cmath>

#include "epifuse/error.h"

namespace epifuse::cli {
namespace {

// Adds the words of `point` to an epilogue of the library, in its order; false at a word that does
// not come in it.
bool add_word(const std::string& word, const PointTensors& tensors, cuda::VendorEpilogue& out) {
  using Activation = cuda::VendorEpilogue::Activation;
  const bool activated = out.activation != Activation::none;
  if (word == "preact") {
    out.preact = tensors.view("z").data;
    return out.activation == Activation::gelu_tanh;
  }
  if (activated) return false;
  if (word == "alpha") {
    out.alpha = static_cast<float>(kAlpha);
    return out.bias == nullptr && out.residual == nullptr;
  }
  if (word == "bias") out.bias = tensors.view("b").data;
  if (word == "residual") out.residual = tensors.view("r").data;
  if (word == "relu") out.activation = Activation::relu;
  if (word == "gelu_tanh") out.activation = Activation::gelu_tanh;
  return word == "bias" || word == "residual" || word == "relu" || word == "gelu_tanh";
}

bool is_nn(const Point& point) { return has_layout(point, "nn"); }
// Whether what the bare product multiplies by is in two pieces.
bool is_joined(const Point& point) { return has_layout(point, "separate"); }
std::size_t bytes_of_weights(const Point& point) {
  return static_cast<std::size_t>(product_columns(point) * point.k) * 2;
}

// Values of fp8 as checkpoints have them, up to the largest number, and scales that make results of
// them as large as those of 16 bits. Weights of 1 / sqrt(K) would be subnormal, most of them.
InputOptions inputs_of(const Point& point) {
  constexpr double kDeviation = 64;
  if (!is_fp8(point.dtype)) return {};
  const double back = 1 / kDeviation;
  return {.deviations = {{"x", kDeviation},
                         {"w", kDeviation},
                         {"sx", back},
                         {"sw", back / std::sqrt(static_cast<double>(point.k))}}};
}

}  // namespace

PointTensors::PointTensors(const Point& point, const Graph& graph)
    : point_(point),
      host_(graph.ir(), {{"M", point.m}}, inputs_of(point)),
      target_(host_, Target::cuda()),
      device_(cuda::Device::require()),
      bare_result_(device_,
                   static_cast<std::size_t>(point.batch * point.m * product_columns(point)) * 2),
      bare_weights_(device_, is_joined(point) ? bytes_of_weights(point) : 0) {
  TensorView d = view("y");
  d.data = bare_result_.data();
  d.dtype = epilogue_dtype(point);
  if (point.batch > 1) {
    bare_ = batched_bare(d);
    return;
  }
  d.shape = {point.m, product_columns(point)};
  d.strides = {product_columns(point), 1};
  bare_ = cuda::bare_gemm(device_, rows(), is_joined(point) ? joined_weights() : weights(), d);
}

// The vendor's products of a batch, as a program that fuses nothing runs them.
std::function<void(Stream)> PointTensors::batched_bare(const TensorView& d) const {
  Point bare = point_;
  bare.epilogue = "identity";
  const Program program = compile(graph_of(bare), Target::cuda(), {.fuse = false});
  const std::vector<Binding> bindings{{"x", view("x")}, {"w", view("w")}, {"y", d}};
  return [program, bindings](Stream stream) { program.run(bindings, stream); };
}

TensorView PointTensors::view(std::string_view name) const {
  for (const Binding& binding : target_.bindings()) {
    if (binding.name == name) return binding.view;
  }
  throw InternalError("the benchmark's graph has no such tensor");
}

// x as [m, k].
TensorView PointTensors::rows() const {
  TensorView x = view("x");
  if (!has_layout(point_, "xm")) return x;
  x.shape = {point_.m, point_.k};
  x.strides = {1, point_.m};
  return x;
}

TensorView PointTensors::weights() const {
  TensorView w = view("w");
  const std::int64_t n = product_columns(point_);
  w.shape = {point_.k, n};
  w.strides =
      is_nn(point_) ? std::vector<std::int64_t>{n, 1} : std::vector<std::int64_t>{1, point_.k};
  return w;
}

// Two weights as one, as a model would keep them for one product: [2 n, k], or [k, 2 n] where each
// of them is [k, n].
TensorView PointTensors::joined_weights() {
  TensorView w = weights();
  w.data = bare_weights_.data();
  const std::size_t num_rows = is_nn(point_) ? static_cast<std::size_t>(point_.k) : 1;
  const std::size_t row_bytes = bytes_of_weights(point_) / num_rows / 2;
  std::vector<char> joined;
  joined.reserve(bytes_of_weights(point_));
  for (std::size_t row = 0; row < num_rows; ++row) {
    for (const char* name : {"w", "v"}) {
      const auto* from = static_cast<const char*>(host_.view(name).data) + row * row_bytes;
      joined.insert(joined.end(), from, from + row_bytes);
    }
  }
  bare_weights_.copy_from_host(joined.data(), joined.size());
  return w;
}

std::function<void(Stream)> PointTensors::copy_of_weights() const {
  const std::size_t bytes = bytes_of_weights(point_) / 2;
  const auto to = std::make_shared<const cuda::DeviceBuffer>(device_, bytes);
  const auto from = reinterpret_cast<jit::CuDevicePtr>(view("w").data);
  return [device = device_, to, from](Stream stream) {
    device->check(device->api().memcpy_device_to_device_async(to->pointer(), from, to->size_bytes(),
                                                              static_cast<jit::CuStream>(stream)),
                  "cuMemcpyDtoDAsync");
  };
}

std::function<void(Stream)> PointTensors::vendor_epilogue() const {
  if (point_.batch > 1 || is_fp8(point_.dtype)) return nullptr;
  cuda::VendorEpilogue epilogue;
  for (const std::string& word : epilogue_words(point_)) {
    if (!add_word(word, *this, epilogue)) return nullptr;
  }
  try {
    return cuda::epilogue_gemm(device_, rows(), weights(), view("y"), epilogue);
  } catch (const DeviceError&) {
    return nullptr;  // the library has no kernel for this combination
  }
}

}  // namespace epifuse::cli
