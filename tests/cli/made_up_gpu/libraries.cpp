// NVRTC and cuBLASLt beside the made-up GPU: a binary is its source, and how long a product takes
// is a setting.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "backends/cuda/vendor/cublaslt_api.h"
#include "clock.h"

namespace epifuse {
namespace {

struct Layout {
  std::uint64_t rows, cols;
};

// MADE_UP_VENDOR: the number of elements of a result up to which products take no time; those of
// more take longer than any kernel.
double product_us(const Layout& result) {
  constexpr double kSlowUs = 1000, kFastUs = 0.5;
  const char* const most = std::getenv("MADE_UP_VENDOR");
  const double elements = static_cast<double>(result.rows * result.cols);
  return most != nullptr && elements <= std::atof(most) ? kFastUs : kSlowUs;
}

}  // namespace

extern "C" {

using Program = std::string*;

int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
const char* nvrtcGetErrorString(int) { return "made up"; }
int nvrtcCreateProgram(Program* program, const char* text, const char*, int, const char* const*,
                       const char* const*) {
  *program = new std::string(text);
  return 0;
}
int nvrtcDestroyProgram(Program* program) {
  delete *program;
  return 0;
}
int nvrtcCompileProgram(Program, int, const char* const*) { return 0; }
int nvrtcGetProgramLogSize(Program, std::size_t* size) {
  *size = 1;
  return 0;
}
int nvrtcGetProgramLog(Program, char* log) {
  *log = '\0';
  return 0;
}
int nvrtcGetCUBINSize(Program program, std::size_t* size) {
  *size = program->size() + 1;
  return 0;
}
int nvrtcGetCUBIN(Program program, char* to) {
  std::memcpy(to, program->c_str(), program->size() + 1);
  return 0;
}
constexpr std::string_view kPtx = "// made up, V13.0.0\n";
int nvrtcGetPTXSize(Program, std::size_t* size) {
  *size = kPtx.size();
  return 0;
}
int nvrtcGetPTX(Program, char* to) {
  std::memcpy(to, kPtx.data(), kPtx.size());
  return 0;
}

using cuda::LtHandle;
using cuda::LtMatmulDesc;
using cuda::LtMatrixLayout;
using cuda::LtPreference;

int cublasLtCreate(LtHandle*) { return 0; }
int cublasLtDestroy(LtHandle) { return 0; }
std::size_t cublasLtGetVersion() { return 130'000; }
const char* cublasLtGetStatusName(int) { return "made up"; }
int cublasLtMatmulDescCreate(LtMatmulDesc*, cuda::LtComputeType, cuda::LtDataType) { return 0; }
int cublasLtMatmulDescDestroy(LtMatmulDesc) { return 0; }
int cublasLtMatmulDescSetAttribute(LtMatmulDesc, int, const void*, std::size_t) { return 0; }
int cublasLtMatrixLayoutCreate(LtMatrixLayout* layout, cuda::LtDataType, std::uint64_t rows,
                               std::uint64_t cols, std::int64_t) {
  *layout = reinterpret_cast<LtMatrixLayout>(new Layout{rows, cols});
  return 0;
}
int cublasLtMatrixLayoutDestroy(LtMatrixLayout layout) {
  delete reinterpret_cast<Layout*>(layout);
  return 0;
}
int cublasLtMatrixLayoutSetAttribute(LtMatrixLayout, int, const void*, std::size_t) { return 0; }
int cublasLtMatmulPreferenceCreate(LtPreference*) { return 0; }
int cublasLtMatmulPreferenceDestroy(LtPreference) { return 0; }
int cublasLtMatmulPreferenceSetAttribute(LtPreference, int, const void*, std::size_t) { return 0; }
int cublasLtMatmulAlgoGetHeuristic(LtHandle, LtMatmulDesc, LtMatrixLayout, LtMatrixLayout,
                                   LtMatrixLayout, LtMatrixLayout, LtPreference, int,
                                   cuda::LtHeuristicResult* result, int* returned) {
  *result = {};
  *returned = 1;
  return 0;
}
int cublasLtMatmul(LtHandle, LtMatmulDesc, const void*, const void*, LtMatrixLayout, const void*,
                   LtMatrixLayout, const void*, const void*, LtMatrixLayout, void*,
                   LtMatrixLayout result, const cuda::LtAlgorithm*, void*, std::size_t,
                   jit::CuStream) {
  jit::spend_us(product_us(*reinterpret_cast<const Layout*>(result)));
  return 0;
}
}

}  // namespace epifuse
