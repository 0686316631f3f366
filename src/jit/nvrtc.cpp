// Compiles CUDA C++ text to cubins with NVRTC, which is opened at run time.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "epifuse/error.h"
#include "jit/compile_inputs.h"
#include "jit/compile_log.h"
#include "jit/dynamic_library.h"
#include "jit/jit.h"
#include "jit/nvrtc_places.h"

namespace epifuse::jit {
namespace {

using Program = struct ProgramTag*;  // nvrtcProgram
constexpr int kSuccess = 0;

struct Api {
  int (*version)(int*, int*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*create)(Program*, const char* text, const char* name, int, const char* const* headers,
                const char* const* names) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int, const char* const* options) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*cubin_size)(Program, std::size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*ptx_size)(Program, std::size_t*) = nullptr;
  int (*ptx)(Program, char*) = nullptr;
};

bool bind(const DynamicLibrary& library, Api& api) {
  return library.bind("nvrtcVersion", api.version) &&
         library.bind("nvrtcGetErrorString", api.error_string) &&
         library.bind("nvrtcCreateProgram", api.create) &&
         library.bind("nvrtcDestroyProgram", api.destroy) &&
         library.bind("nvrtcCompileProgram", api.compile) &&
         library.bind("nvrtcGetProgramLogSize", api.log_size) &&
         library.bind("nvrtcGetProgramLog", api.log) &&
         library.bind("nvrtcGetCUBINSize", api.cubin_size) &&
         library.bind("nvrtcGetCUBIN", api.cubin) &&
         library.bind("nvrtcGetPTXSize", api.ptx_size) && library.bind("nvrtcGetPTX", api.ptx);
}

// libnvrtc opens its builtins by bare name: the loader then finds the copy that is already open.
void preload_builtins(const std::string& library_path) {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(library_path).parent_path();
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with("libnvrtc-builtins.so")) {
      DynamicLibrary::open(entry.path().string());
    }
  }
}

// One program; the getters return what the library holds after compile().
class Compilation {
 public:
  Compilation(const Api& api, const std::string& text, const std::string& name,
              std::span<const Header> headers)
      : api_(api) {
    std::vector<const char*> texts, names;
    for (const Header& header : headers) {
      texts.push_back(header.text.data());
      names.push_back(header.name.data());
    }
    const int result = api_.create(&program_, text.c_str(), name.c_str(),
                                   static_cast<int>(headers.size()), texts.data(), names.data());
    if (result != kSuccess) throw CompileError(message(result), text, "");
  }
  ~Compilation() { api_.destroy(&program_); }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  int compile(const std::vector<std::string>& options) {
    std::vector<const char*> pointers;
    for (const std::string& option : options) pointers.push_back(option.c_str());
    return api_.compile(program_, static_cast<int>(pointers.size()), pointers.data());
  }
  std::string message(int result) const {
    return fmt::format("NVRTC: {}", api_.error_string(result));
  }
  std::string log() const { return fetch(api_.log_size, api_.log); }
  std::string cubin() const { return fetch(api_.cubin_size, api_.cubin); }
  std::string ptx() const { return fetch(api_.ptx_size, api_.ptx); }

 private:
  std::string fetch(int (*size)(Program, std::size_t*), int (*get)(Program, char*)) const {
    std::size_t num_bytes = 0;
    if (size(program_, &num_bytes) != kSuccess || num_bytes == 0) return "";
    std::string bytes(num_bytes, '\0');
    if (get(program_, bytes.data()) != kSuccess) return "";
    return bytes;
  }

  const Api& api_;
  Program program_ = nullptr;
};

// "V13.0.88", as written at the top of generated PTX; empty when it is not there.
std::string build_number(const Api& api) {
  Compilation program(api, "extern \"C\" __global__ void empty() {}", "empty.cu", {});
  if (program.compile({}) != kSuccess) return "";
  const std::string ptx = program.ptx();
  const std::size_t begin = ptx.find(", V");
  const std::size_t end = ptx.find_first_not_of("V.0123456789", begin + 2);
  if (begin == std::string::npos || end == std::string::npos) return "";
  return ptx.substr(begin + 2, end - begin - 2);
}

// The first line of the log that says what is wrong, else the library's own words.
std::string first_error(const std::string& log, const std::string& otherwise) {
  const std::size_t at = log.find("error");
  if (at == std::string::npos) return otherwise;
  const std::size_t begin = log.rfind('\n', at) + 1;
  return log.substr(begin, log.find('\n', at) - begin);
}

}  // namespace

std::vector<std::string> compile_options(const std::string& arch) {
  return {"-arch=" + arch, "-std=c++17",         "-default-device",
          "-DNDEBUG",      "--ptxas-options=-v", "--ptxas-options=--register-usage-level=0"};
}

struct Nvrtc::Impl {
  DynamicLibrary library;
  Api api;
  std::string path, place, version, toolchain;
  bool has_own_cache = false;  // since 12.9, in the driver's folder
};

Nvrtc::Nvrtc(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Nvrtc::~Nvrtc() = default;
std::string Nvrtc::version() const { return impl_->version; }
std::string Nvrtc::toolchain() const { return impl_->toolchain; }
std::string Nvrtc::path() const { return impl_->path; }
std::string Nvrtc::place() const { return impl_->place; }

std::shared_ptr<const Nvrtc> Nvrtc::open(std::vector<std::string>* looked_in) {
  for (const std::string& place : nvrtc_places(Settings::read(), looked_in)) {
    auto impl = std::make_unique<Impl>();
    impl->library = DynamicLibrary::open(place);
    if (!impl->library || !bind(impl->library, impl->api)) {
      if (looked_in != nullptr && place.find('/') != std::string::npos) {
        looked_in->push_back(
            fmt::format("{}: {}", place,
                        impl->library ? "lacks entry points of NVRTC 12" : impl->library.error()));
      }
      continue;
    }
    impl->place = place;
    impl->path = file_of(reinterpret_cast<const void*>(impl->api.version));
    preload_builtins(impl->path);
    int major = 0, minor = 0;
    impl->api.version(&major, &minor);
    impl->version = fmt::format("{}.{}", major, minor);
    impl->has_own_cache = major > 12 || (major == 12 && minor >= 9);
    impl->toolchain = fmt::format("nvrtc {} {}", impl->version, build_number(impl->api));
    return std::shared_ptr<const Nvrtc>(new Nvrtc(std::move(impl)));
  }
  return nullptr;
}

Binary Nvrtc::compile(const codegen::KernelSource& source) const {
  const auto begin = std::chrono::steady_clock::now();
  Compilation program(impl_->api, source.text, source.entry + ".cu", embedded_headers());
  std::vector<std::string> options = compile_options(source.arch);
  if (impl_->has_own_cache) options.push_back("--no-cache");  // ours is the only one
  const int result = program.compile(options);
  Binary binary;
  binary.log = program.log();
  while (binary.log.ends_with('\0')) binary.log.pop_back();
  if (result != kSuccess) {
    throw CompileError(fmt::format("NVRTC {} refused kernel {}: {}", impl_->version, source.entry,
                                   first_error(binary.log, program.message(result))),
                       source.text, binary.log);
  }
  const std::string cubin = program.cubin();
  binary.cubin.assign(cubin.begin(), cubin.end());
  read_log(binary);
  const auto seconds = std::chrono::steady_clock::now() - begin;
  binary.compile_seconds = std::chrono::duration<double>(seconds).count();
  return binary;
}

}  // namespace epifuse::jit
