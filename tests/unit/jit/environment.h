// What the tests of this layer stand on: a folder and variables that are put back at their end.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "jit/jit.h"

namespace epifuse::jit {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "epifuse-jit-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

inline void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline codegen::KernelSource small_source(const std::string& factor) {
  return {"scale",
          "// y = " + factor +
              " x\nextern \"C\" __global__ void scale(const float* x, float* y) {\n" +
              "  y[threadIdx.x] = " + factor + " * x[threadIdx.x];\n}\n",
          "sm_90a"};
}

inline Binary small_binary() {
  Binary binary;
  binary.cubin = {'\x7f', 'E', 'L', 'F', '\0', '\n', '\xff'};
  binary.log = "ptxas info    : Used 24 registers\n";
  binary.registers = 24;
  binary.spill_bytes = 8;
  binary.stack_bytes = 16;
  binary.problems = {"spills 8 bytes", ""};
  return binary;
}

inline bool same(const Binary& a, const Binary& b) {
  return a.cubin == b.cubin && a.log == b.log && a.registers == b.registers &&
         a.spill_bytes == b.spill_bytes && a.stack_bytes == b.stack_bytes &&
         a.problems == b.problems;
}

}  // namespace epifuse::jit
