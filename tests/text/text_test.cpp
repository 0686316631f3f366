// Runs the golden tests: every tests/text/<kind>/**/*.test holds an input, a line `---` and what
// the kind's function must give for it. With --update the files are rewritten to what it gives.
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

struct GoldenFile {
  std::string input, expected;
};

struct Totals {
  int num_passed = 0, num_failed = 0, num_updated = 0;
};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Splits at the first line that is `---`; a file without one has no expectation yet.
GoldenFile split(const std::string& text) {
  if (text.starts_with(kSeparator)) return {"", text.substr(kSeparator.size())};
  const auto at = text.find("\n" + std::string(kSeparator));
  if (at == std::string::npos) return {text, ""};
  return {text.substr(0, at + 1), text.substr(at + 1 + kSeparator.size())};
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
std::optional<std::string> run(const Kind& kind, const Case& test, const fs::path& name) {
  try {
    return kind.run(test);
  } catch (const std::exception& error) {
    fmt::print("FAILED {}\n  threw: {}\n", name.string(), error.what());
    return std::nullopt;
  }
}

void run_file(const Kind& kind, const fs::path& root, const fs::path& path, bool update,
              Totals& totals) {
  const fs::path name = fs::relative(path, root);
  const GoldenFile golden = split(read_file(path));
  const Case test{golden.input, fs::relative(path.parent_path(), root / kind.folder).string()};
  const auto actual = run(kind, test, name);
  if (!actual) {
    ++totals.num_failed;
  } else if (*actual == golden.expected) {
    ++totals.num_passed;
  } else if (update) {
    ++totals.num_updated;
    std::ofstream(path, std::ios::binary) << golden.input << kSeparator << *actual;
    fmt::print("updated {}\n", name.string());
  } else {
    ++totals.num_failed;
    fmt::print("FAILED {}\n{}", name.string(), difference(golden.expected, *actual));
  }
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
