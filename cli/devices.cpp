// `epifuse devices`: what this machine can run, and what is missing.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <nlohmann/json.hpp>

#include "backends/cuda/driver/device.h"
#include "base/parallel.h"
#include "base/printable.h"
#include "codegen/family.h"
#include "command.h"
#include "epifuse/program.h"
#include "jit/jit.h"
#include "output.h"
#include "targets/targets.h"

namespace epifuse::cli {
namespace {

// The row of targets.def whose code the device runs; null when there is none.
const targets::TargetInfo* target_of(const cuda::DeviceInfo& device) {
  return targets::target_of_gpu(device.major, device.minor);
}

// Whose measurements choices on the device follow; empty where nothing runs there.
std::string profile_text(const cuda::DeviceInfo& device, const targets::TargetInfo* target) {
  return target == nullptr ? "" : targets::describe(cuda::profile_of(device, *target), device.name);
}

// The families that have kernels for a target; none without one.
nlohmann::json families_of(const targets::TargetInfo* target) {
  nlohmann::json out = nlohmann::json::array();
  if (target == nullptr) return out;
  for (const auto* family : codegen::families_for(*target)) out.push_back(family->name);
  return out;
}

nlohmann::json describe() {
  nlohmann::json out;
  out["cpu"] = {{"threads", num_threads()}};
  std::string why;
  out["gpus"] = nlohmann::json::array();
  for (const cuda::DeviceInfo& device : cuda::all_devices(&why)) {
    const targets::TargetInfo* target = target_of(device);
    out["gpus"].push_back({{"name", device.name},
                           {"compute_capability", fmt::format("{}.{}", device.major, device.minor)},
                           {"arch", target == nullptr ? "" : target->name},
                           {"families", families_of(target)},
                           {"sms", device.num_sms},
                           {"memory_bytes", device.memory_bytes},
                           {"profile", profile_text(device, target)},
                           {"driver", cuda::version_text(device.driver_version)}});
  }
  for (const codegen::KernelFamily& family : codegen::all_families()) {
    out["families"][std::string(family.name)] = family.summary;
  }
  out["no_gpu_because"] = why;
  std::vector<std::string> looked_in;
  const auto nvrtc = jit::Nvrtc::open(&looked_in);
  out["nvrtc"] = nvrtc ? nlohmann::json{{"version", nvrtc->version()}, {"path", nvrtc->path()}}
                       : nlohmann::json{{"looked_in", looked_in}};
  out["default_target"] = Target::automatic().arch;
  return out;
}

void print_text(const nlohmann::json& all) {
  fmt::print("cpu    {} threads\n", all["cpu"]["threads"].get<int>());
  for (const auto& gpu : all["gpus"]) {
    const std::string arch = gpu["arch"];
    fmt::print("gpu    {}, compute capability {}, {} SMs, driver {}: {}\n",
               gpu["name"].get<std::string>(), gpu["compute_capability"].get<std::string>(),
               gpu["sms"].get<int>(), gpu["driver"].get<std::string>(),
               arch.empty()
                   ? "no kernels for it yet"
                   : fmt::format("target {}, kernels of {}", arch,
                                 fmt::join(gpu["families"].get<std::vector<std::string>>(), ", ")));
    if (!arch.empty()) fmt::print("       {}\n", gpu["profile"].get<std::string>());
  }
  if (all["gpus"].empty()) {
    fmt::print("gpu    none: {}\n", printable_lines(all["no_gpu_because"].get<std::string>()));
  }
  if (all["nvrtc"].contains("path")) {
    fmt::print("nvrtc  {} at {}\n", all["nvrtc"]["version"].get<std::string>(),
               printable(all["nvrtc"]["path"].get<std::string>()));
  } else {
    const auto places = all["nvrtc"]["looked_in"].get<std::vector<std::string>>();
    fmt::print("nvrtc  none; looked in {}\n",
               printable(fmt::format("{}", fmt::join(places, ", ")), kMaxPrintedMessage));
  }
  for (const auto& [name, summary] : all["families"].items()) {
    fmt::print("family {}: {}\n", name, summary.get<std::string>());
  }
  fmt::print("target {} unless --target says otherwise\n",
             all["default_target"].get<std::string>());
}

}  // namespace

std::function<int()> define_devices(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "Print JSON");
  app.footer(
      "Shows the CPU's threads, the GPUs and which kernels they have, and the NVRTC that compiles "
      "those.\n"
      "Example: epifuse devices --json");
  return [json] {
    const nlohmann::json all = describe();
    if (*json) {
      print_json(all);
    } else {
      print_text(all);
    }
    return static_cast<int>(kOk);
  };
}

}  // namespace epifuse::cli
