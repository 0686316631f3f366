#include "point_tensors.h"

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

}  // namespace

PointTensors::PointTensors(const Point& point, const Graph& graph)
    : point_(point),
      host_(graph.ir(), {{"M", point.m}}, {}),
      target_(host_, Target::cuda()),
      device_(cuda::Device::require()),
      bare_result_(device_, static_cast<std::size_t>(point.m * point.n) * 2) {
  TensorView d = view("y");
  d.data = bare_result_.data();
  bare_ = cuda::bare_gemm(device_, view("x"), weights(), d);
}

TensorView PointTensors::view(std::string_view name) const {
  for (const Binding& binding : target_.bindings()) {
    if (binding.name == name) return binding.view;
  }
  throw InternalError("the benchmark's graph has no such tensor");
}

TensorView PointTensors::weights() const {
  TensorView w = view("w");
  w.shape = {point_.k, point_.n};
  w.strides = {1, point_.k};
  return w;
}

std::function<void(Stream)> PointTensors::vendor_epilogue() const {
  cuda::VendorEpilogue epilogue;
  for (const std::string& word : epilogue_words(point_)) {
    if (!add_word(word, *this, epilogue)) return nullptr;
  }
  try {
    return cuda::epilogue_gemm(device_, view("x"), weights(), view("y"), epilogue);
  } catch (const DeviceError&) {
    return nullptr;  // the library has no kernel for this combination
  }
}

}  // namespace epifuse::cli
