// Runs the golden tests: every tests/text/<kind>/**/*.test holds an input, a line `---` and what
// the kind's function must give for it. With --update the files are rewritten to what it gives.
// A file that begins with a line `=== NAME` holds several such cases, each below a line of its own.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <vector>

#include "kinds.h"

namespace epifuse::text_tests {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSeparator = "---\n";
constexpr std::string_view kHeading = "=== ";

struct GoldenCase {
  std::string heading;  // its line `=== NAME`; empty where the file is one case
  std::string input, expected;
};

struct Totals {
  int num_passed = 0, num_failed = 0, num_updated = 0;
};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Splits at the first line that is `---`; a case without one has no expectation yet.
GoldenCase split(const std::string& text) {
  if (text.starts_with(kSeparator)) return {"", "", text.substr(kSeparator.size())};
  const auto at = text.find("\n" + std::string(kSeparator));
  if (at == std::string::npos) return {"", text, ""};
  return {"", text.substr(0, at + 1), text.substr(at + 1 + kSeparator.size())};
}

// "sizes" of "=== sizes\n".
std::string name_of(const GoldenCase& golden) {
  return golden.heading.substr(kHeading.size(), golden.heading.find('\n') - kHeading.size());
}

std::vector<GoldenCase> split_cases(const std::string& text) {
  if (!text.starts_with(kHeading)) return {split(text)};
  std::vector<GoldenCase> cases;
  for (std::size_t at = 0; at < text.size();) {
    const auto next = text.find("\n" + std::string(kHeading), at);
    const std::size_t end = next == std::string::npos ? text.size() : next + 1;
    const std::size_t below = std::min(text.find('\n', at), end - 1) + 1;
    cases.push_back(split(text.substr(below, end - below)));
    cases.back().heading = text.substr(at, below - at);
    if (!cases.back().heading.ends_with('\n')) cases.back().heading += '\n';
    at = end;
  }
  return cases;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The lines between the first and the last that differ, - expected, + actual.
std::string difference(const std::string& expected, const std::string& actual) {
  const auto want = lines_of(expected), got = lines_of(actual);
  const auto first = std::mismatch(want.begin(), want.end(), got.begin(), got.end());
  const auto last = std::mismatch(want.rbegin(), std::make_reverse_iterator(first.first),
                                  got.rbegin(), std::make_reverse_iterator(first.second));
  std::string text;
  for (auto it = want.begin(); it != first.first; ++it) text += "    " + *it + "\n";
  for (auto it = first.first; it != last.first.base(); ++it) text += "  - " + *it + "\n";
  for (auto it = first.second; it != last.second.base(); ++it) text += "  + " + *it + "\n";
  for (auto it = last.first.base(); it != want.end(); ++it) text += "    " + *it + "\n";
  return text;
}

// What the kind makes of the input; an exception is a failure of its own.
std::optional<std::string> run(const Kind& kind, const Case& test, const std::string& name) {
  try {
    return kind.run(test);
  } catch (const std::exception& error) {
    fmt::print("FAILED {}\n  threw: {}\n", name, error.what());
    return std::nullopt;
  }
}

// What the case's expectation is afterwards: another one only where it is to be updated.
std::string run_case(const Kind& kind, const Case& test, const std::string& expected,
                     const std::string& name, bool update, Totals& totals) {
  const auto actual = run(kind, test, name);
  if (!actual) {
    ++totals.num_failed;
  } else if (*actual == expected) {
    ++totals.num_passed;
  } else if (update) {
    ++totals.num_updated;
    fmt::print("updated {}\n", name);
    return *actual;
  } else {
    ++totals.num_failed;
    fmt::print("FAILED {}\n{}", name, difference(expected, *actual));
  }
  return expected;
}

void run_file(const Kind& kind, const fs::path& root, const fs::path& path, bool update,
              Totals& totals) {
  const std::string file_name = fs::relative(path, root).string();
  const std::string subfolder = fs::relative(path.parent_path(), root / kind.folder).string();
  const int num_updated = totals.num_updated;
  std::string text;
  for (const GoldenCase& golden : split_cases(read_file(path))) {
    const std::string name = file_name + (golden.heading.empty() ? "" : ": " + name_of(golden));
    const std::string expected =
        run_case(kind, {golden.input, subfolder}, golden.expected, name, update, totals);
    text.append(golden.heading).append(golden.input).append(kSeparator).append(expected);
  }
  if (totals.num_updated > num_updated) std::ofstream(path, std::ios::binary) << text;
}

std::vector<fs::path> find_files(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".test") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// A folder that no kind reads would be tests that never run.
int num_unknown_folders(const fs::path& root) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(root)) {
    const auto kinds = all_kinds();
    const std::string folder = entry.path().filename().string();
    if (!entry.is_directory() || std::any_of(kinds.begin(), kinds.end(), [&](const Kind& kind) {
          return kind.folder == folder;
        })) {
      continue;
    }
    fmt::print("FAILED {}: no kind of golden tests has this folder\n", entry.path().string());
    ++count;
  }
  return count;
}

int run_all(const fs::path& root, bool update, std::string_view filter) {
  Totals totals;
  for (const Kind& kind : all_kinds()) {
    for (const fs::path& path : find_files(root / kind.folder)) {
      if (path.string().find(filter) == std::string::npos) continue;
      run_file(kind, root, path, update, totals);
    }
  }
  totals.num_failed += num_unknown_folders(root);
  fmt::print("{} passed, {} failed, {} updated\n", totals.num_passed, totals.num_failed,
             totals.num_updated);
  return totals.num_failed == 0 && totals.num_passed + totals.num_updated > 0 ? 0 : 1;
}

}  // namespace
}  // namespace epifuse::text_tests

// Usage: text_tests [--update] [part of a path]
int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  bool update = false;
  std::string_view filter;
  for (const std::string_view argument : arguments) {
    if (argument == "--update") {
      update = true;
    } else {
      filter = argument;
    }
  }
  return epifuse::text_tests::run_all(EPIFUSE_SOURCE_DIR "/tests/text", update, filter);
}
