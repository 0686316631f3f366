// torch.ops.epifuse.fused: runs one kernel on tensors of PyTorch. Of PyTorch only the C functions
// of its stable ABI are called (torch_functions.txt), so that one binary serves all versions
// from 2.10.
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>
#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "epifuse/c.h"

namespace {

// Null where PyTorch, as it is loaded here, has no such function.
template <typename Function>
Function* find_function(const char* library, const char* name) {
  void* const loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  return loaded == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(loaded, name));
}

// The core. It is loaded here, not linked: libraries of one dlopen share a scope, in which parts of
// PyTorch's oneDNN would stand in for the same parts of ours, of another version.
struct Core {
  decltype(&epifuse_last_error) last_error;
  decltype(&epifuse_kernel) kernel;
  decltype(&epifuse_num_inputs) num_inputs;
  decltype(&epifuse_num_outputs) num_outputs;
  decltype(&epifuse_is_cuda) is_cuda;
  decltype(&epifuse_output) output;
  decltype(&epifuse_run) run;
};

Core load_core() {
  void* library = dlopen(EPIFUSE_C_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = dlopen("libepifuse_c.so", RTLD_NOW | RTLD_LOCAL);  // of a wheel
  if (library == nullptr) throw std::runtime_error(dlerror());
  Core core{};
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function != nullptr) return;
    throw std::runtime_error(std::string("expected ") + name + " in " + EPIFUSE_C_LIBRARY +
                             ", which is of another version");
  };
  find(core.last_error, "epifuse_last_error");
  find(core.kernel, "epifuse_kernel");
  find(core.num_inputs, "epifuse_num_inputs");
  find(core.num_outputs, "epifuse_num_outputs");
  find(core.is_cuda, "epifuse_is_cuda");
  find(core.output, "epifuse_output");
  find(core.run, "epifuse_run");
  return core;
}

const Core& core() {
  static const Core loaded = load_core();
  return loaded;
}

[[noreturn]] void fail_in_torch(const char* call) {
  // From PyTorch 2.13 on.
  static const auto what =
      find_function<const char*()>("libtorch_cpu.so", "torch_exception_get_what_without_backtrace");
  throw std::runtime_error(std::string("epifuse: ") + call + " failed" +
                           (what == nullptr ? "" : std::string(": ") + what()));
}

void check(AOTITorchError error, const char* call) {
  if (error != TORCH_SUCCESS) fail_in_torch(call);
}

void check(EpifuseStatus status) {
  if (status != EPIFUSE_OK) throw std::runtime_error(core().last_error());
}

template <auto destroy>
struct Delete {
  template <typename Object>
  void operator()(Object* object) const {
    destroy(object);
  }
};
using Tensor = std::unique_ptr<AtenTensorOpaque, Delete<aoti_torch_delete_tensor_object>>;
using List = std::unique_ptr<StableListOpaque, Delete<torch_delete_list>>;
using String = std::unique_ptr<StringOpaque, Delete<torch_delete_string>>;

template <typename Owner>
Owner take(StableIValue value) {
  return Owner(torch::stable::detail::to<typename Owner::pointer>(value));
}

template <typename Owner>
StableIValue give(Owner&& owner) {
  return torch::stable::detail::from(owner.release());
}

std::string_view view(const String& string) {
  std::size_t length = 0;
  const char* text = nullptr;
  check(torch_string_length(string.get(), &length), "torch_string_length");
  check(torch_string_c_str(string.get(), &text), "torch_string_c_str");
  return {text, length};
}

// PyTorch's numbers of the types in EpifuseDType, in its order.
const std::array<std::int32_t, 9>& dtypes() {
  static const std::array<std::int32_t, 9> numbers{
      aoti_torch_dtype_float32(),       aoti_torch_dtype_bfloat16(),    aoti_torch_dtype_float16(),
      aoti_torch_dtype_float8_e4m3fn(), aoti_torch_dtype_float8_e5m2(), aoti_torch_dtype_bool(),
      aoti_torch_dtype_int32(),         aoti_torch_dtype_int64(),       aoti_torch_dtype_int8()};
  return numbers;
}

std::string name_of_other_dtype(std::int32_t dtype) {
  if (dtype == aoti_torch_dtype_float64()) return "float64";
  if (dtype == aoti_torch_dtype_int16()) return "int16";
  if (dtype == aoti_torch_dtype_uint8()) return "uint8";
  if (dtype == aoti_torch_dtype_complex64()) return "complex64";
  if (dtype == aoti_torch_dtype_complex128()) return "complex128";
  return "number " + std::to_string(dtype) + " of PyTorch";
}

std::int32_t dtype_of(const Tensor& tensor, std::size_t index) {
  std::int32_t dtype = 0;
  check(aoti_torch_get_dtype(tensor.get(), &dtype), "aoti_torch_get_dtype");
  for (std::size_t i = 0; i < dtypes().size(); ++i) {
    if (dtypes()[i] == dtype) return static_cast<std::int32_t>(i);
  }
  throw std::runtime_error(
      "input " + std::to_string(index) +
      ": expected float32, bfloat16, float16, float8_e4m3fn, float8_e5m2, int8 or bool, got " +
      name_of_other_dtype(dtype));
}

struct Device {
  std::int32_t type = 0, index = 0;
  bool operator==(const Device&) const = default;
  bool is_cuda() const { return type == aoti_torch_device_type_cuda(); }
  std::string name() const {
    if (is_cuda()) return "cuda:" + std::to_string(index);
    return type == aoti_torch_device_type_cpu() ? "cpu" : "another device";
  }
};

Device device_of(const Tensor& tensor) {
  Device device;
  check(aoti_torch_get_device_type(tensor.get(), &device.type), "aoti_torch_get_device_type");
  check(aoti_torch_get_device_index(tensor.get(), &device.index), "aoti_torch_get_device_index");
  return device;
}

// The tensors of a call; what `tensors` point to lives as long as `owners`.
struct Inputs {
  explicit Inputs(const List& list);
  std::vector<Tensor> owners;
  std::vector<EpifuseTensor> tensors;
  Device device;
};

EpifuseTensor described(const Tensor& tensor, std::size_t index) {
  std::int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  const void* data = nullptr;
  check(aoti_torch_get_dim(tensor.get(), &rank), "aoti_torch_get_dim");
  check(aoti_torch_get_sizes(tensor.get(), &sizes), "aoti_torch_get_sizes");
  check(aoti_torch_get_strides(tensor.get(), &strides), "aoti_torch_get_strides");
  check(torch_get_const_data_ptr(tensor.get(), &data), "torch_get_const_data_ptr");
  return {const_cast<void*>(data), dtype_of(tensor, index), static_cast<std::int32_t>(rank), sizes,
          strides};
}

Inputs::Inputs(const List& list) {
  std::size_t count = 0;
  check(torch_list_size(list.get(), &count), "torch_list_size");
  owners.reserve(count);
  tensors.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    StableIValue item{};
    check(torch_list_get_item(list.get(), i, &item), "torch_list_get_item");
    owners.push_back(take<Tensor>(item));
  }
  for (std::size_t i = 0; i < count; ++i) {
    tensors.push_back(described(owners[i], i));
    const Device here = device_of(owners[i]);
    if (i == 0) device = here;
    if (here == device) continue;
    throw std::runtime_error("expected all tensors on " + device.name() + ", got input " +
                             std::to_string(i) + " on " + here.name());
  }
}

const EpifuseKernel* find_kernel(const String& graph, const String& options, const Inputs& inputs) {
  const std::string_view text = view(graph), wanted = view(options);
  const EpifuseKernel* kernel = nullptr;
  check(core().kernel(text.data(), text.size(), wanted.data(), wanted.size(), &kernel));
  const auto expected = static_cast<std::size_t>(core().num_inputs(kernel));
  if (inputs.tensors.size() != expected) {
    throw std::runtime_error("expected " + std::to_string(expected) + " tensors, got " +
                             std::to_string(inputs.tensors.size()));
  }
  const bool is_cuda = core().is_cuda(kernel) != 0;
  if (is_cuda != inputs.device.is_cuda()) {
    throw std::runtime_error(std::string("expected ") + (is_cuda ? "cuda" : "cpu") +
                             " tensors, as the options ask for that target, got tensors on " +
                             inputs.device.name());
  }
  return kernel;
}

// The results of a call, dense.
struct Outputs {
  Outputs(const EpifuseKernel* kernel, const Inputs& inputs);
  StableIValue to_list();

 private:
  using Sizes = std::array<std::int64_t, EPIFUSE_MAX_RANK>;
  struct Result {
    Tensor owner;
    Sizes sizes, strides;
  };
  void allocate(Result& result, const EpifuseKernel* kernel, const Inputs& inputs, int index);
  std::vector<Result> results_;

 public:
  std::vector<EpifuseTensor> tensors;  // point into results_
};

Outputs::Outputs(const EpifuseKernel* kernel, const Inputs& inputs) {
  const int count = core().num_outputs(kernel);
  results_.resize(static_cast<std::size_t>(count));
  tensors.reserve(results_.size());
  for (int i = 0; i < count; ++i) {
    allocate(results_[static_cast<std::size_t>(i)], kernel, inputs, i);
  }
}

void Outputs::allocate(Result& result, const EpifuseKernel* kernel, const Inputs& inputs,
                       int index) {
  EpifuseTensor tensor{nullptr, EPIFUSE_F32, 0, result.sizes.data(), result.strides.data()};
  EpifuseDType dtype = EPIFUSE_F32;
  check(core().output(kernel, inputs.tensors.data(), index, &dtype, &tensor.rank,
                      result.sizes.data()));
  tensor.dtype = dtype;
  std::int64_t stride = 1;
  for (auto d = static_cast<std::size_t>(tensor.rank); d-- > 0;) {
    result.strides[d] = stride;
    stride *= std::max<std::int64_t>(result.sizes[d], 1);
  }
  AtenTensorHandle fresh = nullptr;
  check(aoti_torch_empty_strided(tensor.rank, tensor.sizes, tensor.strides, dtypes()[dtype],
                                 inputs.device.type, inputs.device.index, &fresh),
        "aoti_torch_empty_strided");
  result.owner.reset(fresh);
  check(torch_get_mutable_data_ptr(fresh, &tensor.data), "torch_get_mutable_data_ptr");
  tensors.push_back(tensor);
}

StableIValue Outputs::to_list() {
  StableListHandle handle = nullptr;
  check(torch_new_list_reserve_size(results_.size(), &handle), "torch_new_list_reserve_size");
  List list(handle);
  for (Result& result : results_) {
    check(torch_list_push_back(list.get(), give(std::move(result.owner))), "torch_list_push_back");
  }
  return give(std::move(list));
}

// What only builds of PyTorch with CUDA have.
struct CudaFunctions {
  AOTITorchError (*current_stream)(std::int32_t, void**);
  AOTITorchError (*create_guard)(std::int32_t, void**);
  AOTITorchError (*delete_guard)(void*);
};

const CudaFunctions& cuda_functions() {
  constexpr const char* kLibrary = "libtorch_cuda.so";
  static const CudaFunctions functions{
      find_function<AOTITorchError(std::int32_t, void**)>(kLibrary,
                                                          "aoti_torch_get_current_cuda_stream"),
      find_function<AOTITorchError(std::int32_t, void**)>(kLibrary, "aoti_torch_create_cuda_guard"),
      find_function<AOTITorchError(void*)>(kLibrary, "aoti_torch_delete_cuda_guard")};
  if (functions.current_stream == nullptr || functions.create_guard == nullptr ||
      functions.delete_guard == nullptr) {
    throw std::runtime_error(std::string("expected the CUDA functions of PyTorch in ") + kLibrary +
                             ", which are not there");
  }
  return functions;
}

// Makes a GPU the current one while it lives.
class CudaGuard {
 public:
  explicit CudaGuard(std::int32_t device) {
    check(cuda_functions().create_guard(device, &guard_), "aoti_torch_create_cuda_guard");
  }
  ~CudaGuard() { cuda_functions().delete_guard(guard_); }
  CudaGuard(const CudaGuard&) = delete;
  CudaGuard& operator=(const CudaGuard&) = delete;

 private:
  void* guard_ = nullptr;
};

void run(const EpifuseKernel* kernel, const Inputs& inputs, const Outputs& outputs) {
  if (!inputs.device.is_cuda()) {
    return check(core().run(kernel, inputs.tensors.data(), outputs.tensors.data(), nullptr));
  }
  const CudaGuard guard(inputs.device.index);
  void* stream = nullptr;
  check(cuda_functions().current_stream(inputs.device.index, &stream),
        "aoti_torch_get_current_cuda_stream");
  check(core().run(kernel, inputs.tensors.data(), outputs.tensors.data(), stream));
}

// Boxed: the stack holds the arguments, which are ours, and takes the result.
void fused(StableIValue* stack, std::uint64_t, std::uint64_t) {
  const List list = take<List>(stack[0]);
  const String graph = take<String>(stack[1]), options = take<String>(stack[2]);
  const Inputs inputs(list);
  const EpifuseKernel* kernel = find_kernel(graph, options, inputs);
  Outputs outputs(kernel, inputs);
  run(kernel, inputs, outputs);
  stack[0] = outputs.to_list();
}

}  // namespace

STABLE_TORCH_LIBRARY(epifuse, library) {
  library.def("fused(Tensor[] inputs, str graph, str options) -> Tensor[]");
}

// The meta function and autograd are registered in Python.
STABLE_TORCH_LIBRARY_IMPL(epifuse, CPU, library) { library.impl("fused", &fused); }
STABLE_TORCH_LIBRARY_IMPL(epifuse, CUDA, library) { library.impl("fused", &fused); }
