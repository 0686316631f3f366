#include "codegen/source_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace epifuse::codegen {

std::string comment(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += end == 0 ? "//" : "// ";
    out += text.substr(0, end);
    out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string without_comments(std::string_view source) {
  std::string out;
  while (!source.empty()) {
    const std::size_t end = std::min(source.find('\n'), source.size());
    std::string_view line = source.substr(0, end);
    const std::size_t comment_at = line.find("//");
    if (comment_at != std::string_view::npos) {
      line = line.substr(0, comment_at);
      while (line.ends_with(' ')) line.remove_suffix(1);
    }
    if (!line.empty() || comment_at == std::string_view::npos) {
      out += line;
      out += '\n';
    }
    source.remove_prefix(std::min(end + 1, source.size()));
  }
  return out;
}

std::string entry_name(std::string_view kind, const plan::Epilogue& epilogue) {
  constexpr std::size_t kLongest = 96;
  return fmt::format("epifuse_{}_{}", kind, plan::identifier(epilogue)).substr(0, kLongest);
}

KernelSource kernel_source(const targets::TargetInfo& target, const KernelParts& parts) {
  KernelSource out;
  out.entry = parts.entry;
  out.arch = target.name;
  out.text = comment(parts.comment) + parts.includes + '\n';
  if (!parts.generated.empty()) {
    out.text += fmt::format(
        "namespace epifuse::generated {{\n\n{}\n}}  // namespace epifuse::generated\n\n",
        parts.generated);
  }
  out.text += fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({})\n"
      "    {}(const __grid_constant__ epifuse::{} p) {{\n{}}}\n",
      parts.bounds, parts.entry, parts.params, parts.body);
  return out;
}

}  // namespace epifuse::codegen
