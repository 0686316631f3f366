// Which NVRTC a cache folder's kernels came from, known without opening NVRTC.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "jit/jit.h"

namespace epifuse::jit {

// The toolchain of the NVRTC that Nvrtc::open() would take, from a record of an earlier run about
// the same unchanged file. Where no NVRTC is found at all: the last one that was used. Empty when
// NVRTC must be opened to know.
std::optional<std::string> recorded_toolchain(const std::filesystem::path& cache_folder);

// Writes the record for recorded_toolchain; a folder that cannot be written is passed over.
void record_toolchain(const std::filesystem::path& cache_folder, const Nvrtc& nvrtc);

}  // namespace epifuse::jit
