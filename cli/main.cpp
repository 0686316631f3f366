// The command line of epifuse: parses, runs one command, turns exceptions into exit codes.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "base/did_you_mean.h"
#include "base/printable.h"
#include "base/settings.h"
#include "command.h"
#include "failure.h"
#include "output.h"

namespace epifuse::cli {
namespace {

struct Command {
  const char* name;
  const char* summary;
  Define define;
};

constexpr Command kCommands[] = {
#define EPIFUSE_COMMAND(name, summary) {#name, summary, &define_##name},
#include "commands.def"
#undef EPIFUSE_COMMAND
};

std::string footer() {
  std::string text = R"(Examples:
  epifuse run examples/ffn_down.epi M=4096
  epifuse explain examples/bert_base_ffn.epi M=512 --target cuda --machine h200
  epifuse emit examples/ffn_down.epi --target cuda
  epifuse COMMAND --help

Exit codes:
  0  done, and every check passed
  1  a check failed: a result outside its bound, a corrupt cache entry
  2  bad input: arguments, files or graphs that do not fit
  3  something this machine lacks: a GPU, a driver, a library
  4  the run-time compiler or the device failed
  5  standard output could not be written
  70 a bug of epifuse
With --json a command that fails prints one object: kind, message, hint. Where several files
are given, each that fails has such an object under "error".

Environment:
)";
  for (const SettingInfo& setting : all_settings()) {
    text += fmt::format("  {:<20} {}\n", setting.variable, setting.meaning);
  }
  return text;
}

// Says the failure on standard error and, to programs, as one object on standard output.
int end_failed(const Failure& failure, bool json) {
  report(failure);
  if (json && failure.code != kOutputLost) print_json(to_json(failure));
  return failure.code;
}

int run_guarded(const std::function<int()>& action, bool json) {
  try {
    return action();
  } catch (...) {
    return end_failed(current_failure(), json);
  }
}

// The help that was asked for, or what is wrong with the arguments.
int exit_parsing(const CLI::App& app, const CLI::ParseError& error, bool json) {
  std::ostringstream out, message;
  const int code = app.exit(error, out, message);
  std::fputs(out.str().c_str(), stdout);
  std::fputs(printable_lines(message.str()).c_str(), stderr);
  if (code == 0) return kOk;
  if (json) print_json(to_json(Failure{kBadInput, error.what()}));
  return kBadInput;
}

// The first word is no option and no command: what is wrong with it.
std::optional<Failure> unknown_command(const std::vector<std::string_view>& words) {
  if (words.empty() || words.front().starts_with('-')) return std::nullopt;
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) names.push_back(command.name);
  if (std::ranges::find(names, words.front()) != names.end()) return std::nullopt;
  return Failure{kBadInput,
                 fmt::format("unknown command '{}'{}; there are: {}", printable(words.front()),
                             did_you_mean(words.front(), names), fmt::join(names, ", "))};
}

int run_main(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + std::min(argc, 1), argv + argc);
  const bool json = std::ranges::find(words, "--json") != words.end();
  if (const auto failure = unknown_command(words)) return end_failed(*failure, json);
  CLI::App app{"epifuse: a matrix multiply and the elementwise work around it, as one kernel."};
  app.set_version_flag("--version", EPIFUSE_VERSION);
  app.require_subcommand(1);
  app.footer(footer());
  std::vector<std::pair<CLI::App*, std::function<int()>>> actions;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    actions.emplace_back(sub, command.define(*sub));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return exit_parsing(app, error, json);
  }
  for (const auto& [sub, action] : actions) {
    if (sub->parsed()) return run_guarded(action, json);
  }
  return kBadInput;
}

}  // namespace
}  // namespace epifuse::cli

int main(int argc, char** argv) {
  return epifuse::cli::finish_output(epifuse::cli::run_main(argc, argv));
}
