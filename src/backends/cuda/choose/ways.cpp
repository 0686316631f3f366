// Every way to run a fused step on given tensors.
#include "backends/cuda/choose/ways.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "backends/cuda/choose/another_family.h"
#include "backends/cuda/choose/behind_copies.h"
#include "backends/cuda/choose/model_choice.h"
#include "backends/cuda/run/run_builder.h"
#include "plan/epilogue.h"

namespace epifuse::cuda {
namespace {

std::string name_of(const StepChoice& choice) {
  if (choice.in_order != nullptr) return std::string(tune::kRowsFirst);
  if (choice.behind_copies && !choice.why_split) return std::string(tune::kOperandsFirst);
  if (choice.why_split) return std::string(tune::kProductAndTail);
  return candidate_name(*choice.kernels, choice.kernel->config);
}

constexpr double kAnyTime = std::numeric_limits<double>::infinity();

// Of those that count, the ones of least expected time, in its order.
std::vector<codegen::GemmConfig> best_candidates(
    const plan::FusedGemm& gemm, const StepKernels& kernels, const codegen::GemmSizes& sizes,
    const targets::DeviceProfile& device, std::size_t most,
    const std::function<bool(const codegen::GemmConfig&)>& counts) {
  const auto by_time = by_expected_us(kernels, gemm, sizes, device);
  const double limit = hopeless(device, most);
  std::vector<codegen::GemmConfig> best;
  for (const auto& [index, us] : by_time) {
    if (best.size() == most || us > limit * by_time.front().us) break;
    const codegen::GemmConfig& config = kernels.candidates[index];
    if (counts(config)) best.push_back(config);
  }
  return best;
}

// Of the step's own family, in the variant that the tensors ask for, also where another's run.
const StepKernels& own_kernels(const Prepared& prepared, std::size_t step, LateKernels& late,
                               const StepChoice& choice) {
  const StepKernels& own = *choice.kernels;
  const StepKernels& usual = prepared.steps[step];
  if (own.family == usual.family && own.variant == choice.variant) return own;
  return usual.variant == choice.variant
             ? usual
             : late.variant(prepared, step, choice.variant, choice.sizes);
}

constexpr std::size_t kMostOfAnother = 4;  // family, whose model is about other cases

bool are_copies_compiled(const plan::Plan& plan, const plan::FusedGemm& step, LateKernels& late) {
  return std::ranges::all_of(step.gemm.operands(), [&](ir::ValueId operand) {
    const ir::TensorType& type = plan.graph[operand].type;
    return late.is_copy_compiled(type.dtype, type.shape.size());
  });
}

void add(std::vector<std::string>& names, std::string name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
}

// How many ways behind copies; fewer where the model thinks less of them.
std::size_t num_behind_copies(std::size_t most, bool are_usual) {
  constexpr std::size_t kPart = 4, kMost = 4, kMostOfUsual = 12;
  return are_usual ? std::min(most, kMostOfUsual) : std::min(most / kPart, kMost);
}

// The kernel that the model chooses behind copies of misaligned operands, and the next best `most`
// of those that are compiled, or with `compiles` of all.
void add_behind_copies(const Prepared& prepared, LateKernels& late, const codegen::Bound& bound,
                       const targets::DeviceProfile& device, std::size_t most, bool compiles,
                       Ways& ways) {
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[ways.step]);
  const bool are_exchanged =
      prepared.steps[ways.step].family->roles(ways.usual.variant).are_exchanged;
  const auto behind = behind_copies(
      prepared, ways.step, late, bound, device,
      are_exchanged ? codegen::exchanged(ways.usual.sizes) : ways.usual.sizes, kAnyTime);
  if (!behind) return;
  add(ways.names, std::string(tune::kOperandsFirst));
  const std::vector<codegen::GemmConfig> candidates = best_candidates(
      gemm, *behind->kernels, behind->sizes, device, most, [&](const codegen::GemmConfig& config) {
        return compiles || late.is_compiled(prepared, ways.step, *behind->kernels, config);
      });
  late.compile(prepared, ways.step, *behind->kernels, candidates);
  for (const codegen::GemmConfig& config : candidates) {
    const std::string name = candidate_name(*behind->kernels, config);
    const Kernel* kernel = late.candidate(prepared, ways.step, *behind->kernels, name);
    const bool is_new = kernel != nullptr && kernel->config != behind->kernel->config;
    if (is_new) add(ways.names, tune::operands_first(name));
  }
}

}  // namespace

tune::StepForm Ways::form() const {
  tune::StepForm form = usual.form();
  form.beside = beside;
  return form;
}

// No model is farther off, and one that knows the device was not in any sweep
// (docs/gotchas-hopper.md). That only where all are asked for: few cost little.
double hopeless(const targets::DeviceProfile& device, std::size_t most) {
  constexpr double kOfAll = 1.6, kOfFew = 5;
  return device.known != nullptr && most == kAllWays ? kOfAll : kOfFew;
}

std::optional<Ways> find_ways(const Prepared& prepared, std::size_t step, LateKernels& late,
                              const codegen::Bound& bound, const targets::DeviceProfile& device,
                              std::size_t most, bool compiles) {
  if (prepared.steps[step].kind != StepKind::family) return std::nullopt;
  Ways ways{step, choose_step(prepared, step, late, bound, {device}), {}};
  if (ways.usual.expected_us == 0) return std::nullopt;
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[step]);
  const StepKernels& own = prepared.steps[step];
  const bool is_addressable =
      !own.family->why_not_bound(prepared.plan, gemm, ReadTensors(gemm, bound).bound());
  if (!is_addressable && !ways.usual.is_copied) return std::nullopt;
  add(ways.names, name_of(ways.usual));
  // A product of groups that no family takes runs on CUDA cores, far slower than any that one does.
  const bool is_hopeless = gemm.gemm.has_groups() && is_addressable;
  const bool splits = !prepared.is_named && !gemm.gemm.is_scaled() && !is_hopeless &&
                      (compiles || late.is_split_compiled(prepared.plan, step));
  if (splits) add(ways.names, std::string(tune::kProductAndTail));
  if (!is_addressable) {
    if (compiles) {
      add_behind_copies(prepared, late, bound, device, num_behind_copies(most, false), compiles,
                        ways);
    }
    add(ways.names, std::string(tune::kOperandsFirst));
    return ways;
  }
  const auto add_candidates = [&](const StepKernels& of, std::size_t at_most) {
    const auto counts = [&](const codegen::GemmConfig& config) {
      return compiles || late.is_compiled(prepared, step, of, config);
    };
    const std::vector<codegen::GemmConfig> candidates =
        best_candidates(gemm, of, ways.usual.sizes, device, at_most, counts);
    late.compile(prepared, step, of, candidates, splits);
    for (const codegen::GemmConfig& config : candidates) {
      std::string name = candidate_name(of, config);
      if (late.candidate(prepared, step, of, name) != nullptr) add(ways.names, std::move(name));
    }
  };
  if (compiles || !ways.usual.behind_copies) {
    add_candidates(own_kernels(prepared, step, late, ways.usual), most);
  }
  const StepKernels* const others =
      compiles ? others_kernels(prepared, step, late, bound, ways.usual) : nullptr;
  if (others != nullptr) add_candidates(*others, std::min(most, kMostOfAnother));
  const codegen::OperandRoles roles = own.family->roles(ways.usual.variant);
  if (roles.are_misaligned() && (compiles || ways.usual.behind_copies)) {
    add_behind_copies(prepared, late, bound, device,
                      num_behind_copies(most, ways.usual.behind_copies.has_value()), compiles,
                      ways);
  } else if (roles.are_misaligned() && are_copies_compiled(prepared.plan, gemm, late)) {
    add(ways.names, std::string(tune::kOperandsFirst));
  }
  if (compiles && gemm.gemm.a.lookup >= 0) add(ways.names, std::string(tune::kRowsFirst));
  return ways;
}

std::optional<std::size_t> place(const std::vector<std::string>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

ChoiceRules forced(ChoiceRules rules, const ForcedChoice& choice) {
  rules.forced = &choice;
  return rules;
}

std::size_t most_workspace(const Prepared& prepared, LateKernels& late, const ChoiceRules& rules,
                           const codegen::Bound& bound, std::span<const Ways> steps) {
  std::size_t bytes = 0;
  for (const Ways& ways : steps) {
    for (const std::string& name : ways.names) {
      const ForcedChoice way{ways.step, name};
      bytes = std::max(bytes, workspace_bytes(prepared, late, forced(rules, way), bound));
    }
  }
  return bytes;
}

std::string describe(const Prepared& prepared, const Ways& ways) {
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[ways.step]);
  const codegen::GemmSizes& sizes = ways.usual.sizes;
  const std::string step = fmt::format("{}x{}x{} {} {}", sizes.m, sizes.n, sizes.k,
                                       name(gemm.gemm.a.dtype), label(gemm.epilogue));
  if (ways.beside.empty()) return step;
  return fmt::format("{} beside {} columns", step, fmt::join(ways.beside, " "));
}

}  // namespace epifuse::cuda
