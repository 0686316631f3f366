// A folder of generated sources that compiles by hand.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace epifuse::cli {

using SourceFiles = std::vector<std::pair<std::string, std::string>>;  // name of the file, text

// How to compile the sources, in the folder where they are: for the options of NVRTC, and nvcc.
std::string compile_by_hand(const std::string& arch);

// Writes the sources, every header that they include, with their folders, and COMPILE.txt. Returns
// the number of headers. Throws ArgumentError when the folder cannot be written.
std::size_t write_bundle(const std::filesystem::path& folder, const SourceFiles& sources,
                         const std::string& arch);

}  // namespace epifuse::cli
