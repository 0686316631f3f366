// Kernels loaded into a context, and launches of them with everything prepared.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/driver/device.h"
#include "codegen/launch.h"
#include "codegen/patches.h"
#include "jit/jit.h"

namespace epifuse::cuda {

// The binaries of one context, each loaded once, when first needed. Thread-safe.
class Modules {
 public:
  explicit Modules(std::shared_ptr<const Device> device) : device_(std::move(device)) {}
  ~Modules();
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;

  // The kernel `entry` of `binary`, allowed `smem_bytes` of dynamic shared memory.
  jit::CuFunction get(const std::shared_ptr<const jit::Binary>& binary, const std::string& entry,
                      unsigned smem_bytes);

 private:
  struct Loaded {
    std::shared_ptr<const jit::Binary> binary;  // kept, so that its address names it
    jit::CuModule module = nullptr;
    jit::CuFunction function = nullptr;
    unsigned smem_bytes = 0;
  };
  void load(Loaded& loaded, const std::string& entry) const;
  std::shared_ptr<const Device> device_;
  std::mutex mutex_;
  std::map<const jit::Binary*, Loaded> loaded_;
};

// One launch: nothing is left to do but to queue it.
struct KernelCall {
  jit::CuFunction function = nullptr;
  unsigned grid = 1, block = 1, cluster = 1, smem_bytes = 0;
  bool overlaps_previous = false;
  std::vector<unsigned char> params;  // with the tensor maps encoded
};

// Encodes the tensor maps of `launch`.
KernelCall prepare_call(const Device& device, jit::CuFunction function, codegen::Launch launch);

void run(const Device& device, const KernelCall& call, jit::CuStream stream);

// A launch that is ready for the values of any call of a form.
struct PatchedCall {
  struct Map {
    std::size_t offset;           // into call.params
    codegen::AddressPlace place;  // of its matrix
    std::uintptr_t address;       // with which it is encoded in call.params
  };
  KernelCall call;
  std::vector<codegen::PatchedLaunch::Address> addresses;
  std::vector<codegen::PatchedLaunch::Scalar> scalars;
  std::vector<Map> maps;
};

// Encodes the tensor maps for the addresses of a first call.
PatchedCall prepare_call(const Device& device, jit::CuFunction function,
                         codegen::PatchedLaunch launch, const codegen::CallValues& values);

// Writes the parameters of a call into `params`, aligned as a tensor map, call.params.size() bytes.
void write_params(const Device& device, const PatchedCall& call, const codegen::CallValues& values,
                  unsigned char* params);

void run(const Device& device, const PatchedCall& call, const codegen::CallValues& values,
         jit::CuStream stream);

}  // namespace epifuse::cuda
