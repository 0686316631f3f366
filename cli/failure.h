// A command's failure as the user is told it.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "command.h"

namespace epifuse::cli {

struct Failure {
  ExitCode code = kInternal;
  std::string message;  // of any length, with any bytes
};

// "bad_input", "unavailable" and so on: one for each exit code.
std::string_view kind_of(const Failure& failure);

// {"kind", "message", "hint"}: the failure for programs. The hint says what to do, or is empty.
nlohmann::json to_json(const Failure& failure);

// What the exception that is being handled comes to.
Failure current_failure();

// Prints the message on standard error, as a terminal may show it.
void report(const Failure& failure);

// Does one of several things, such as one file: a failure is reported and returned, so that the
// others are still done. That standard output cannot be written is no such failure: it is thrown.
std::optional<Failure> attempt(const std::function<void()>& action);

}  // namespace epifuse::cli
