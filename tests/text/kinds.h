// The kinds of golden tests: a folder of tests/text/ and the function that its texts go through.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace epifuse::text_tests {

struct Case {
  std::string input;      // all before the line ---
  std::string subfolder;  // between the kind's folder and the file; for passes the pass
};

struct Kind {
  std::string_view folder;
  std::string (*run)(const Case&);  // what must stand below the line ---
};

std::span<const Kind> all_kinds();

}  // namespace epifuse::text_tests
