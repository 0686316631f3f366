// Opens cuBLASLt and binds its entry points.
#include "backends/cuda/vendor/cublaslt_api.h"

#include <fmt/format.h>

#include <vector>

#include "base/settings.h"
#include "epifuse/error.h"
#include "jit/dynamic_library.h"
#include "jit/library_places.h"

namespace epifuse::cuda {
namespace {

bool bind(const jit::DynamicLibrary& library, LtApi& api) {
  return library.bind("cublasLtCreate", api.create) &&
         library.bind("cublasLtDestroy", api.destroy) &&
         library.bind("cublasLtGetVersion", api.version) &&
         library.bind("cublasLtGetStatusName", api.status_name) &&
         library.bind("cublasLtMatmulDescCreate", api.desc_create) &&
         library.bind("cublasLtMatmulDescDestroy", api.desc_destroy) &&
         library.bind("cublasLtMatmulDescSetAttribute", api.desc_set) &&
         library.bind("cublasLtMatrixLayoutCreate", api.layout_create) &&
         library.bind("cublasLtMatrixLayoutDestroy", api.layout_destroy) &&
         library.bind("cublasLtMatrixLayoutSetAttribute", api.layout_set) &&
         library.bind("cublasLtMatmulPreferenceCreate", api.preference_create) &&
         library.bind("cublasLtMatmulPreferenceDestroy", api.preference_destroy) &&
         library.bind("cublasLtMatmulPreferenceSetAttribute", api.preference_set) &&
         library.bind("cublasLtMatmulAlgoGetHeuristic", api.heuristic) &&
         library.bind("cublasLtMatmul", api.matmul);
}

}  // namespace

std::shared_ptr<const LtApi> open_cublaslt() {
  const Settings settings = Settings::read();
  const jit::LibraryQuery query{"libcublasLt", settings.cublaslt, "EPIFUSE_CUBLASLT", {}};
  std::vector<std::string> looked_in;
  for (const std::string& place : jit::library_places(query, settings, &looked_in)) {
    const auto library = jit::DynamicLibrary::open(place);
    auto api = std::make_shared<LtApi>();
    if (library && bind(library, *api)) return api;
    if (place.find('/') == std::string::npos) continue;
    looked_in.push_back(fmt::format(
        "{}: {}", place, library ? "lacks entry points of cuBLASLt 12" : library.error()));
  }
  throw UnavailableError(fmt::format(
      "A matrix product that no kernel of epifuse takes needs cuBLASLt, and there is none. Looked "
      "in:\n  {}",
      fmt::join(looked_in, "\n  ")));
}

void check(const LtApi& api, LtStatus status, const char* call) {
  if (status == kLtSuccess) return;
  throw DeviceError(fmt::format("{} failed: {}", call, api.status_name(status)));
}

}  // namespace epifuse::cuda
