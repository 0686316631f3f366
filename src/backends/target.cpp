// Which target a name, or this machine, stands for.
#include "backends/target.h"

#include <fmt/format.h>

#include <vector>

#include "backends/backend.h"
#include "codegen/family.h"
#include "epifuse/error.h"

namespace epifuse {
namespace {

std::string detected_arch(DeviceKind kind) {
  for (const backends::Backend& backend : backends::all_backends()) {
    if (backend.kind == kind && backend.detect != nullptr) return backend.detect();
  }
  return "";
}

}  // namespace

Target Target::cpu() { return {DeviceKind::cpu, "cpu"}; }

Target Target::cuda() {
  const std::string arch = detected_arch(DeviceKind::cuda);
  return {DeviceKind::cuda,
          arch.empty() ? std::string(targets::usual_target(DeviceKind::cuda).name) : arch};
}

Target Target::automatic() {
  const std::string arch = detected_arch(DeviceKind::cuda);
  return arch.empty() ? cpu() : Target{DeviceKind::cuda, arch};
}

Target Target::parse(std::string_view text) {
  if (text == "auto") return automatic();
  if (text == "cpu") return cpu();
  if (text == "cuda") return cuda();
  if (const targets::TargetInfo* info = targets::find_target(text)) {
    return {info->kind, std::string(info->name)};
  }
  std::vector<std::string_view> names{"auto", "cuda"};
  for (const targets::TargetInfo& row : targets::all_targets()) names.push_back(row.name);
  throw ArgumentError(
      fmt::format("target: expected one of {}, got '{}'", fmt::join(names, ", "), text));
}

const targets::TargetInfo& target_info(const Target& target) {
  const targets::TargetInfo* info = targets::find_target(target.arch);
  if (info != nullptr && info->kind == target.kind) return *info;
  std::vector<std::string_view> names;
  for (const targets::TargetInfo& row : targets::all_targets()) {
    if (row.kind == target.kind) names.push_back(row.name);
  }
  throw ArgumentError(fmt::format("target: expected {} for a {}, got '{}'", fmt::join(names, ", "),
                                  target.kind == DeviceKind::cpu ? "CPU" : "GPU", target.arch));
}

CompileOptions options_on(const targets::TargetInfo& target, const CompileOptions& options) {
  codegen::check_family(options.family);
  CompileOptions meant = options;
  meant.allow_tf32 = options.allow_tf32 && target.kind == DeviceKind::cuda;
  return meant;
}

}  // namespace epifuse
