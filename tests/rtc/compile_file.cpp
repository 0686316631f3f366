// Developer's tool: compiles one .cu file the way the library compiles generated kernels.
//   rtc_compile_file FILE.cu [ARCH] [CUBIN]      e.g. rtc_compile_file gemm.cu sm_90a gemm.cubin
#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "epifuse/error.h"
#include "jit/jit.h"

namespace {

std::string read_file(const char* path) {
  std::ifstream file(path);
  if (!file) throw epifuse::ArgumentError(fmt::format("cannot read {}", path));
  return {std::istreambuf_iterator<char>(file), {}};
}

int compile_file(const char* path, const char* arch, const char* cubin_path) {
  std::vector<std::string> looked_in;
  const auto nvrtc = epifuse::jit::Nvrtc::open(&looked_in);
  if (nvrtc == nullptr) {
    throw epifuse::UnavailableError(fmt::format("no NVRTC in\n  {}", fmt::join(looked_in, "\n  ")));
  }
  const epifuse::jit::Binary binary = nvrtc->compile({path, read_file(path), arch});
  if (cubin_path != nullptr) {
    std::ofstream(cubin_path, std::ios::binary)
        .write(binary.cubin.data(), std::ssize(binary.cubin));
  }
  fmt::print("{}{}: {:.2f} s, {} registers, {} bytes spilled, {} bytes of stack, cubin {} bytes\n",
             binary.log, path, binary.compile_seconds, binary.registers, binary.spill_bytes,
             binary.stack_bytes, binary.cubin.size());
  for (const std::string& problem : binary.problems) fmt::print("problem: {}\n", problem);
  return binary.problems.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    fmt::print(stderr, "usage: {} FILE.cu [ARCH=sm_90a] [CUBIN]\n", argv[0]);
    return 2;
  }
  try {
    return compile_file(argv[1], argc > 2 ? argv[2] : "sm_90a", argc > 3 ? argv[3] : nullptr);
  } catch (const epifuse::CompileError& error) {
    fmt::print(stderr, "{}\n{}\n", error.log, error.what());
  } catch (const epifuse::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  return 1;
}
