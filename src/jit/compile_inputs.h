// What goes into every compilation beside the source.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace epifuse::jit {

// SHA-256 over names and texts of embedded_headers(), computed when they were embedded.
std::string_view embedded_headers_digest();

std::string_view epifuse_version();  // "0.1.0"

// NVRTC's command line for an architecture, the name of a CUDA target.
std::vector<std::string> compile_options(const std::string& arch);

}  // namespace epifuse::jit
