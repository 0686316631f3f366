#include "bundle.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <regex>
#include <string_view>

#include "files.h"
#include "jit/compile_inputs.h"
#include "jit/jit.h"

namespace epifuse::cli {
namespace {

// CuTe's headers as the run-time compiler sees them, by nvcc too.
constexpr const char* kPrefix = "#ifndef __CUDACC_RTC__\n#define __CUDACC_RTC__\n#endif\n";

using Headers = std::map<std::string, std::string_view>;

// Adds the embedded headers that `text` includes, and those that they include. Names of other
// headers stand behind conditions that do not hold, or are the compiler's own.
void add_included(std::string_view text, const Headers& embedded, Headers& found) {
  static const std::regex kInclude("#\\s*include\\s*[<\"]([^>\"]+)[>\"]");
  const std::string all(text);
  for (std::sregex_iterator i(all.begin(), all.end(), kInclude), end; i != end; ++i) {
    const auto header = embedded.find((*i)[1]);
    if (header == embedded.end() || !found.insert(*header).second) continue;
    add_included(header->second, embedded, found);
  }
}

void write(const std::filesystem::path& path, std::string_view text) {
  make_output_folder(path.parent_path());
  write_output(path, text);
}

}  // namespace

std::string compile_by_hand(const std::string& arch) {
  return fmt::format(
      "NVRTC: nvrtcCompileProgram(program, options) with -I. {}\n"
      "nvcc:  nvcc -cubin -arch={} -std=c++17 -DNDEBUG --expt-relaxed-constexpr "
      "-Xptxas --register-usage-level=0 -I. FILE.cu\n",
      fmt::join(jit::compile_options(arch), " "), arch);
}

std::size_t write_bundle(const std::filesystem::path& folder, const SourceFiles& sources,
                         const std::string& arch) {
  Headers embedded, found;
  for (const jit::Header& header : jit::embedded_headers()) {
    embedded.emplace(header.name, header.text);
  }
  make_output_folder(folder);
  for (const auto& [name, text] : sources) {
    add_included(text, embedded, found);
    write(folder / name, kPrefix + text);
  }
  for (const auto& [name, text] : found) write(folder / name, text);
  write(folder / "COMPILE.txt", compile_by_hand(arch));
  return found.size();
}

}  // namespace epifuse::cli
