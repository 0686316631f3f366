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

// "did you mean 'x'?" of a message that ends a sentence with it in parentheses.
std::string guess_in(const std::string& message) {
  const std::size_t begin = message.find("(did you mean ");
  if (begin == std::string::npos) return "";
  const std::size_t end = message.find("?)", begin);
  return end == std::string::npos ? "" : message.substr(begin + 1, end - begin);
}

std::string hint_of(const Failure& failure) {
  switch (failure.code) {
    case kUnavailable:
      return "`epifuse devices` shows what this machine can run, and what is missing";
    case kInternal:
    case kDeviceFailed: return "please report it with the graph and what `epifuse devices` prints";
    default: return guess_in(failure.message);
  }
}

}  // namespace

std::string_view kind_of(const Failure& failure) {
  switch (failure.code) {
    case kCheckFailed: return "check_failed";
    case kBadInput: return "bad_input";
    case kUnavailable: return "unavailable";
    case kDeviceFailed: return "device_failed";
    case kOutputLost: return "output_lost";
    default: return "internal";
  }
}

nlohmann::json to_json(const Failure& failure) {
  return {{"kind", kind_of(failure)}, {"message", failure.message}, {"hint", hint_of(failure)}};
}

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
