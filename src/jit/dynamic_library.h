// A shared library opened at run time.
#pragma once

#include <string>

namespace epifuse::jit {

class DynamicLibrary {
 public:
  // `name` is a path, or a bare name for the loader's own search. Stays open for the whole process:
  // the libraries opened here register exit handlers of their own.
  static DynamicLibrary open(const std::string& name);
  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& error() const { return error_; }  // the loader's message when it did not open

  void* symbol(const char* name) const;  // null when there is none
  template <class Function>
  bool bind(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(symbol(name));
    return function != nullptr;
  }

 private:
  void* handle_ = nullptr;
  std::string error_;
};

// Path of the file that holds the code or data at `address`; empty when it is unknown.
std::string file_of(const void* address);

}  // namespace epifuse::jit
