#include "failure.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>

#include "base/printable.h"
#include "epifuse/error.h"

namespace epifuse::cli {
namespace {

Failure failure(ExitCode code, const std::exception& error, const char* in_front = "") {
  return {code, fmt::format("{}{}", in_front, error.what())};
}

}  // namespace

Failure current_failure() {
  try {
    throw;
  } catch (const UnavailableError& error) {
    return failure(kUnavailable, error);
  } catch (const CompileError& error) {
    return failure(kDeviceFailed, error, "the run-time compiler refused a kernel: ");
  } catch (const DeviceError& error) {
    return failure(kDeviceFailed, error, "the device failed: ");
  } catch (const InternalError& error) {
    return failure(kInternal, error, "internal error, please report it: ");
  } catch (const Error& error) {
    return failure(kBadInput, error);
  } catch (const std::bad_alloc&) {
    return {kUnavailable, "this machine has not enough memory for it"};
  } catch (const std::length_error& error) {
    return failure(kBadInput, error, "a size is too large: ");
  } catch (const std::filesystem::filesystem_error& error) {
    return failure(kBadInput, error);
  } catch (const std::system_error& error) {  // {fmt} throws it for standard output
    if (std::ferror(stdout) != 0) return failure(kOutputLost, error, "standard output: ");
    return failure(kUnavailable, error);  // no more threads
  } catch (const std::exception& error) {
    return failure(kInternal, error, "internal error, please report it: ");
  }
}

void report(const Failure& failure) {
  std::fflush(stdout);  // what came before stands before it
  std::fputs(fmt::format("epifuse: {}\n", printable_lines(failure.message)).c_str(), stderr);
}

std::optional<Failure> attempt(const std::function<void()>& action) {
  try {
    action();
    return std::nullopt;
  } catch (...) {
    const Failure failure = current_failure();
    if (failure.code == kOutputLost) throw;
    report(failure);
    return failure;
  }
}

}  // namespace epifuse::cli
