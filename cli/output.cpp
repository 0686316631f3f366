#include "output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "command.h"
#include "failure.h"

namespace epifuse::cli {

void print_json(const nlohmann::json& document) {
  fmt::print("{}\n", document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_json_in_order(const nlohmann::ordered_json& document) {
  fmt::print("{}\n",
             document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

int finish_output(int code) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return code;
  if (code == kOutputLost) return code;  // said already
  const std::string reason = errno == 0 ? "a write failed" : std::generic_category().message(errno);
  report({kOutputLost, fmt::format("standard output cannot be written: {}", reason)});
  return code == kOk ? kOutputLost : code;
}

}  // namespace epifuse::cli
