// Every failure epifuse reports is one of these exceptions. A "no" (cannot fuse, does not apply) is
// never an exception: it is a value with a reason, shown by `explain`.
#pragma once

#include <stdexcept>
#include <string>

namespace epifuse {

/// Base of all exceptions thrown by epifuse.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// `.epi` text that cannot be read. what() shows position, the line, what was expected, what came.
struct ParseError : Error {
  ParseError(const std::string& message, int line_, int column_)
      : Error(message), line(line_), column(column_) {}
  int line, column;  ///< 1-based position in the text
};
/// A graph that breaks a typing rule: shapes or dtypes that do not fit an op.
struct GraphError : Error {
  using Error::Error;
};
/// Tensors, options or files handed to a call that do not fit what it expects.
struct ArgumentError : Error {
  using Error::Error;
};
/// Something this machine lacks (a GPU, a driver, NVRTC, a vendor library); says where it looked.
struct UnavailableError : Error {
  using Error::Error;
};
/// Generated code that the run-time compiler refused; carries the source and the compiler's log.
struct CompileError : Error {
  CompileError(const std::string& message, std::string source_, std::string log_)
      : Error(message), source(std::move(source_)), log(std::move(log_)) {}
  std::string source, log;
};
/// A driver or vendor-library call that failed on the device.
struct DeviceError : Error {
  using Error::Error;
};
/// A broken invariant: a bug of epifuse itself.
struct InternalError : Error {
  using Error::Error;
};

}  // namespace epifuse
