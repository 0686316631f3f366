// `epifuse cache`: the folder of compiled kernels.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "epifuse/error.h"
#include "jit/jit.h"

namespace epifuse::cli {
namespace {

struct Options {
  std::string action;
  bool json = false;
};

struct Summary {
  std::size_t kernels = 0, corrupt = 0;
  std::uintmax_t bytes = 0;
};

Summary summarise(const std::vector<jit::KernelCache::Entry>& entries) {
  Summary sum;
  for (const auto& entry : entries) {
    ++sum.kernels;
    sum.corrupt += entry.valid ? 0 : 1;
    sum.bytes += entry.bytes;
  }
  return sum;
}

void print_entries(const std::vector<jit::KernelCache::Entry>& entries) {
  for (const auto& entry : entries) {
    fmt::print("{}  {:>8} bytes  {}{}\n", entry.key.substr(0, 16), entry.bytes, entry.description,
               entry.valid ? "" : "  CORRUPT (ignored, replaced by the next compile)");
  }
}

nlohmann::json to_json(const jit::KernelCache& cache,
                       const std::vector<jit::KernelCache::Entry>& entries, const Summary& sum) {
  nlohmann::json out{{"folder", cache.folder().string()},
                     {"kernels", sum.kernels},
                     {"bytes", sum.bytes},
                     {"corrupt", sum.corrupt},
                     {"entries", nlohmann::json::array()}};
  for (const auto& entry : entries) {
    out["entries"].push_back({{"key", entry.key},
                              {"bytes", entry.bytes},
                              {"description", entry.description},
                              {"valid", entry.valid}});
  }
  return out;
}

int run(const Options& options) {
  const jit::KernelCache cache(jit::KernelCache::default_folder());
  if (options.action == "clear") {
    const std::size_t removed = cache.clear();
    if (options.json) {
      fmt::print("{}\n", nlohmann::json{{"removed", removed}}.dump(2));
    } else {
      fmt::print("removed {} kernels from {}\n", removed, cache.folder().string());
    }
    return kOk;
  }
  const auto entries = cache.list();
  const Summary sum = summarise(entries);
  if (options.json) {
    fmt::print("{}\n", to_json(cache, entries, sum).dump(2));
  } else {
    if (options.action == "list") print_entries(entries);
    fmt::print("{}: {} kernels, {} bytes, {} corrupt\n", cache.folder().string(), sum.kernels,
               sum.bytes, sum.corrupt);
  }
  return options.action == "verify" && sum.corrupt > 0 ? kCheckFailed : kOk;
}

}  // namespace

std::function<int()> define_cache(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("ACTION", options->action, "list, size, verify or clear")
      ->required()
      ->check(CLI::IsMember({"list", "size", "verify", "clear"}));
  app.add_flag("--json", options->json, "Print JSON");
  app.footer(
      "The folder is EPIFUSE_CACHE, else the user's cache folder.\n"
      "Example: epifuse cache verify && epifuse cache size");
  return [options] { return run(*options); };
}

}  // namespace epifuse::cli
