// Reads what ptxas wrote into NVRTC's log.
#include "jit/compile_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace epifuse::jit {
namespace {

// ptxas on products that cannot overlap: "wgmma.mma_async instructions are serialized due to ..",
// one code per reason, or "warpgroup.wait is injected ..".
constexpr int kFirstWgmmaCode = 7508, kLastWgmmaCode = 7518;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The number that stands directly before `words`, 0 when they do not occur.
int number_before(std::string_view line, std::string_view words) {
  const std::size_t end = line.find(words);
  if (end == std::string_view::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && is_digit(line[begin - 1])) --begin;
  int number = 0;
  for (char c : line.substr(begin, end - begin)) number = number * 10 + (c - '0');
  return number;
}

// The n of "(Cn)", the code of a ptxas message; 0 when the line has none.
int message_code(std::string_view line) {
  const std::size_t open = line.find("(C");
  const std::size_t close = line.find(')', open);
  if (open == std::string_view::npos || close == std::string_view::npos) return 0;
  if (!std::all_of(line.begin() + open + 2, line.begin() + close, is_digit)) return 0;
  return number_before(line.substr(open), ")");
}

void add_once(std::vector<std::string>& problems, std::string problem) {
  if (std::find(problems.begin(), problems.end(), problem) == problems.end()) {
    problems.push_back(std::move(problem));
  }
}

}  // namespace

void read_log(Binary& binary) {
  std::string_view rest = binary.log;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    binary.registers = std::max(binary.registers, number_before(line, " registers"));
    binary.stack_bytes += number_before(line, " bytes stack frame");
    binary.spill_bytes += number_before(line, " bytes spill stores");
    binary.spill_bytes += number_before(line, " bytes spill loads");
    const int code = message_code(line);
    if (code >= kFirstWgmmaCode && code <= kLastWgmmaCode) {
      const bool serialised = line.find("serialized") != std::string_view::npos;
      const char* what = serialised ? "wgmma serialised" : "wgmma made to wait";
      add_once(binary.problems, fmt::format("{} (ptxas C{})", what, code));
    }
  }
  if (binary.spill_bytes > 0) {
    add_once(binary.problems, fmt::format("spills {} bytes", binary.spill_bytes));
  }
}

}  // namespace epifuse::jit
