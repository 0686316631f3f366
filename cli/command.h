// What a command of `epifuse` is.
#pragma once

#include <functional>

namespace CLI {
class App;
}  // namespace CLI

namespace epifuse::cli {

// Exit codes, as `epifuse --help` says them.
enum ExitCode : int {
  kOk = 0,
  kCheckFailed = 1,   // a result outside its bound, a corrupt cache entry
  kBadInput = 2,      // arguments, files or graphs that do not fit
  kUnavailable = 3,   // something this machine lacks
  kDeviceFailed = 4,  // the compiler or the device failed
  kOutputLost = 5,    // standard output could not be written
  kInternal = 70,     // a bug of epifuse
};

// Declares the command's options on its subcommand; the result runs it and gives the exit code.
using Define = std::function<int()> (*)(CLI::App& app);

#define EPIFUSE_COMMAND(name, summary) std::function<int()> define_##name(CLI::App& app);
#include "commands.def"
#undef EPIFUSE_COMMAND

}  // namespace epifuse::cli
