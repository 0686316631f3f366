// Where a library of the CUDA toolkit may be on a machine.
#include "jit/library_places.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>

#include "jit/dynamic_library.h"

namespace epifuse::jit {
namespace {

constexpr const char* kVersions[] = {".so.13", ".so.12"};  // newest first

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  }
  globfree(&found);
  std::reverse(paths.begin(), paths.end());  // newest first
  return paths;
}

std::string own_folder() {
  static constexpr char kAnchor = 0;
  const std::filesystem::path file = file_of(&kAnchor);
  return file.has_parent_path() ? file.parent_path().string() : ".";
}

std::vector<std::string> python_folders(const Settings& settings) {
  std::vector<std::string> folders;
  if (!settings.virtual_env.empty()) {
    folders.push_back(settings.virtual_env + "/lib/python3*/site-packages");
  }
  // The layout of an installed wheel: this library lies in site-packages/epifuse/lib or beside it.
  folders.push_back(own_folder() + "/..");
  folders.push_back(own_folder() + "/../..");
  if (!settings.home.empty()) {
    folders.push_back(settings.home + "/.local/lib/python3*/site-packages");
  }
  for (const char* prefix : {"/usr/local", "/usr", "/opt/*", "/opt/*/.venv", "/opt/conda"}) {
    for (const char* kind : {"dist-packages", "site-packages"}) {
      folders.push_back(std::string(prefix) + "/lib/python3*/" + kind);
    }
  }
  return folders;
}

}  // namespace

std::vector<std::string> library_places(const LibraryQuery& query, const Settings& settings,
                                        std::vector<std::string>* looked_in) {
  std::vector<std::string> places;
  const auto note = [&](const std::string& place) {
    if (looked_in != nullptr) looked_in->push_back(place);
  };
  if (!query.setting.empty()) {
    note(query.setting + " (" + query.variable + ")");
    return {query.setting};
  }
  const auto add_files = [&](const std::string& folder) {
    note(folder + "/" + query.name + ".so*");
    for (const char* version : kVersions) {
      for (std::string& path : matches(folder + "/" + query.name + version)) {
        places.push_back(std::move(path));
      }
    }
  };
  add_files(own_folder());
  for (const std::string& folder : query.folders_first) add_files(folder);
  for (const char* suffix : {".so.13", ".so.12", ".so"}) {
    note(query.name + suffix + " (the loader's path)");
    places.push_back(query.name + suffix);
  }
  add_files("/usr/local/cuda*/lib64");
  add_files("/usr/local/cuda*/targets/x86_64-linux/lib");
  for (const std::string& folder : python_folders(settings)) add_files(folder + "/nvidia/*/lib");
  return places;
}

}  // namespace epifuse::jit
