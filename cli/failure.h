// A command's failure as the user is told it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "command.h"

namespace epifuse::cli {

struct Failure {
  ExitCode code = kInternal;
  std::string message;  // of any length, with any bytes
};

// What the exception that is being handled comes to.
Failure current_failure();

// Prints the message on standard error, as a terminal may show it.
void report(const Failure& failure);

// Does one of several things, such as one file: a failure is reported and returned, so that the
// others are still done. That standard output cannot be written is no such failure: it is thrown.
std::optional<Failure> attempt(const std::function<void()>& action);

}  // namespace epifuse::cli
