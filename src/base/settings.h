// Every environment variable epifuse reads, and the one place that reads them.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace epifuse {

struct SettingInfo {
  std::string_view variable, meaning;
};
std::span<const SettingInfo> all_settings();  // rows of settings.def, for --help and docs

// Read afresh at each call; empty when unset.
struct Settings {
  std::string nvrtc;         // EPIFUSE_NVRTC: path of libnvrtc to use
  std::string cublaslt;      // EPIFUSE_CUBLASLT: path of libcublasLt to use
  std::string cuda_driver;   // EPIFUSE_CUDA_DRIVER: path of libcuda to use
  std::string cache_folder;  // EPIFUSE_CACHE: folder of the cubin cache
  std::string cache_size;    // EPIFUSE_CACHE_SIZE: bytes of the cubin cache
  std::string tune;          // EPIFUSE_TUNE: when kernels are measured
  std::string num_threads;   // EPIFUSE_THREADS: CPU threads
  // Not ours, but read: where caches and Python packages are.
  std::string xdg_cache_home;  // XDG_CACHE_HOME
  std::string home;            // HOME
  std::string virtual_env;     // VIRTUAL_ENV
  static Settings read();
};

}  // namespace epifuse
