// Runs a function in a forked child, for tests.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <functional>
#include <iostream>
#include <string>

namespace epifuse::testing {

// What became of a child that ran `body`: "" when it returned true within the seconds.
inline std::string run_in_child(const std::function<bool()>& body, unsigned seconds = 10) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(seconds);  // whoever hangs is killed by it
    try {
      _exit(body() ? 0 : 1);
    } catch (const std::exception& error) {
      std::cerr << error.what() << std::endl;
      _exit(2);
    }
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return "there is no child";
  if (WIFSIGNALED(status)) {
    return WTERMSIG(status) == SIGALRM ? "the child hangs"
                                       : "signal " + std::to_string(WTERMSIG(status));
  }
  return WEXITSTATUS(status) == 0 ? "" : "exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace epifuse::testing
