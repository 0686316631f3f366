// A shared library opened at run time.
#include "jit/dynamic_library.h"

#include <dlfcn.h>

namespace epifuse::jit {

DynamicLibrary DynamicLibrary::open(const std::string& name) {
  DynamicLibrary library;
  library.handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library.handle_ == nullptr) {
    const char* message = dlerror();
    library.error_ = message != nullptr ? message : "unknown loader error";
  }
  return library;
}

void* DynamicLibrary::symbol(const char* name) const {
  return handle_ == nullptr ? nullptr : dlsym(handle_, name);
}

std::string file_of(const void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

}  // namespace epifuse::jit
