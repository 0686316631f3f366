// From source to cubin: memory, then disk, then NVRTC.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/sealed.h"
#include "codegen/launch.h"

namespace epifuse::jit {

// What the compiler made of one source.
struct Binary {
  std::vector<char> cubin;
  std::string log;
  int registers = 0, spill_bytes = 0, stack_bytes = 0;
  double compile_seconds = 0;  // 0 when it came from the cache
  // Why a family must not use it ("spills 16 bytes", "wgmma serialised"); empty when it is good.
  std::vector<std::string> problems;
};

// NVRTC, opened at run time. Looks in: the setting `nvrtc` (and nowhere else when it is given),
// beside this library, the build tree's wheel, the loader's path, /usr/local/cuda*, packages of
// python3. Any number of threads may compile at once.
class Nvrtc {
 public:
  // Null when none is found; `looked_in` then lists every place tried.
  static std::shared_ptr<const Nvrtc> open(std::vector<std::string>* looked_in = nullptr);
  // Compiles; throws CompileError with source and log when refused.
  Binary compile(const codegen::KernelSource& source) const;
  std::string version() const;    // "13.0"
  std::string toolchain() const;  // "nvrtc 13.0 V13.0.88": for keys; says nothing of the machine
  std::string path() const;       // of the file
  std::string place() const;      // the name it was opened by: that path, or a bare name
  ~Nvrtc();

 private:
  struct Impl;
  explicit Nvrtc(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Everything that can change a cubin: source, headers, options, architecture, toolchain, format.
std::string cache_key(const codegen::KernelSource& source, std::string_view toolchain);

// A folder of cubins named by key. Any number of processes may share it or be killed at any moment.
// Where it cannot be read or written, and where others could write to it, there is simply no cache,
// which is said once; an empty path asks for that. Of more bytes than the setting `cache_size`
// those kernels go that were used longest ago.
class KernelCache {
 public:
  // Throws ArgumentError when the setting `cache_size` is no size.
  explicit KernelCache(std::filesystem::path folder);
  // The setting `cache_folder`, else $XDG_CACHE_HOME/epifuse, $HOME/.cache/epifuse,
  // /tmp/epifuse-UID.
  static std::filesystem::path default_folder();

  std::optional<Binary> load(const std::string& key) const;  // corrupt, truncated, absent: empty
  void store(const std::string& key, const Binary& binary, std::string_view description) const;

  struct Entry {
    std::string key, description;
    std::uintmax_t bytes;
    bool valid, of_other_version = false;
  };
  std::vector<Entry> list() const;                         // reads and checks every entry
  std::size_t clear() const;                               // number removed; what is no entry stays
  bool is_private() const { return files_.is_private(); }  // else there is no cache
  const std::filesystem::path& folder() const { return files_.folder(); }

 private:
  SealedFolder files_;
};

// The road of one process: shared, thread-safe. Compiles misses in parallel threads.
class Jit {
 public:
  explicit Jit(KernelCache cache);
  // One result per source, in order; a candidate that NVRTC refuses has its log in `problems`.
  // Throws UnavailableError when something must be compiled and no NVRTC is found.
  std::vector<std::shared_ptr<const Binary>> get(std::span<const codegen::KernelSource> sources);
  // Of a source that is compiled already, here or on disk; null where get() would compile.
  std::shared_ptr<const Binary> find(const codegen::KernelSource& source);
  const KernelCache& cache() const;
  // Of the NVRTC that compiles here, or compiled what the cache has. Throws UnavailableError where
  // there is neither.
  std::string toolchain() const;
  std::int64_t num_compiled() const;  // sources given to NVRTC, as they were in no cache
  double compile_seconds() const;     // of NVRTC for them, summed over threads

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// Names and texts of the device headers, embedded at build time: kernels/, the shims and CuTe
// atoms.
struct Header {
  std::string_view name, text;
};
std::span<const Header> embedded_headers();

}  // namespace epifuse::jit
