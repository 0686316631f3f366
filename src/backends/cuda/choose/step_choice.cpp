// Chooses how a fused step runs on the tensors at hand.
#include "backends/cuda/choose/step_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "backends/cuda/choose/aligned_copies.h"
#include "backends/cuda/choose/another_family.h"
#include "backends/cuda/choose/behind_copies.h"
#include "backends/cuda/choose/model_choice.h"
#include "codegen/product_roles.h"
#include "epifuse/error.h"
#include "tune/shortlist.h"
#include "tune/unfused.h"

namespace epifuse::cuda {
namespace {

plan::WhyNot no_kernel(const StepKernels& kernels) {
  std::string sentence =
      fmt::format("no kernel of {} compiles well for these tensors ({}):", kernels.family->name,
                  codegen::print(kernels.variant));
  for (const plan::WhyNot& no : kernels.report.why_not) sentence += " " + no.sentence;
  return {"no_variant", std::move(sentence)};
}

// How much longer products on rows off 16-byte boundaries take; empty where nothing was measured.
std::optional<tune::Slowdown> slowdown_of(const plan::FusedGemm& step, const codegen::Bound& bound,
                                          const codegen::OperandRoles& roles,
                                          const targets::DeviceProfile& device) {
  const plan::Operand& a = roles.are_exchanged ? step.gemm.b : step.gemm.a;
  const plan::Operand& b = roles.are_exchanged ? step.gemm.a : step.gemm.b;
  int boundary = kBoundaryBytes;
  const auto rows_of = [&](const plan::Operand& operand, bool is_misaligned) {
    if (!is_misaligned) return targets::Rows::aligned;
    const auto& tensor = bound.tensors[static_cast<std::size_t>(operand.value)];
    boundary = std::min(boundary, boundary_bytes(tensor, operand.dtype));
    return operand.major == plan::Major::k ? targets::Rows::k_major : targets::Rows::mn_major;
  };
  const targets::Rows rows_a = rows_of(a, roles.is_misaligned_a),
                      rows_b = rows_of(b, roles.is_misaligned_b);
  return tune::slowdown(rows_a, rows_b, boundary, device);
}

// What the vendor's product and a tail take on such rows; how much longer than on aligned ones.
std::optional<tune::Slowdown> weigh_vendor(const plan::FusedGemm& step, const codegen::Bound& bound,
                                           const codegen::OperandRoles& roles,
                                           const codegen::GemmSizes& vendor_sizes,
                                           const targets::DeviceProfile& device,
                                           StepChoice& choice) {
  const auto slower = slowdown_of(step, bound, roles, device);
  if (slower) choice.unfused_us = tune::unfused_us(step, vendor_sizes, device, slower->vendor);
  return slower;
}

// Never slower than what fusion replaces.
std::optional<plan::WhyNot> why_unfused(const StepChoice& choice) {
  if (!choice.unfused_us || !tune::is_clearly_slower(choice.expected_us, *choice.unfused_us)) {
    return std::nullopt;
  }
  return plan::WhyNot{
      "slower_than_unfused",
      fmt::format("the fused kernel ({}) is expected to take {:.1f} us, the "
                  "vendor's product and a tail {:.1f} us.",
                  codegen::print(choice.kernel->config), choice.expected_us, *choice.unfused_us)};
}

constexpr double kCopiesClearlyWin = 0.75;  // of the time without

// Whether the model may have misaligned operands copied. A family that was named runs as it is.
bool may_copy(const Prepared& prepared, const LateKernels& late,
              const targets::DeviceProfile& device) {
  return late.compiles_for_sizes() && !prepared.is_named && can_expect_copies(device);
}

// Copies cost a launch each and their bytes, and the kernel for aligned rows takes less.
void weigh_copies(const Prepared& prepared, std::size_t step, LateKernels& late,
                  const codegen::Bound& bound, const codegen::GemmSizes& sizes,
                  const targets::DeviceProfile& device, StepChoice& choice) {
  constexpr double kWorthCopying = 0.95;  // of the time without
  if (!may_copy(prepared, late, device)) return;
  const double most = device.known == nullptr ? kCopiesClearlyWin : kWorthCopying;
  choice.behind_copies =
      behind_copies(prepared, step, late, bound, device, sizes, most * choice.expected_us);
  if (choice.behind_copies) choice.expected_us = choice.behind_copies->expected_us;
}

// Whether copies are so far ahead that no kernel for misaligned rows is worth compiling.
bool copies_win(const Prepared& prepared, std::size_t step, LateKernels& late,
                const codegen::Bound& bound, const codegen::GemmSizes& sizes,
                const targets::DeviceProfile& device, StepChoice& choice) {
  const StepKernels& usual = prepared.steps[step];
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[step]);
  if (!may_copy(prepared, late, device) || plan::is_bare(gemm)) return false;
  const auto own_us = expected_of_variant(usual, gemm, choice.variant, Operands::of_variant,
                                          choice.sizes, late, device);
  if (!own_us) return false;
  choice.behind_copies =
      behind_copies(prepared, step, late, bound, device, sizes, kCopiesClearlyWin * *own_us);
  if (!choice.behind_copies) return false;
  choice.kernel = choice.behind_copies->kernel;
  choice.expected_us = choice.behind_copies->expected_us;
  weigh_vendor(gemm, bound, usual.family->roles(choice.variant), sizes, device, choice);
  choice.why_split = why_unfused(choice);
  return true;
}

void leave_to_vendor(const targets::DeviceProfile& device, StepChoice& choice) {
  choice.why_split =
      plan::WhyNot{"bare_product", fmt::format("nothing is fused into the product, and {}.",
                                               device.known == nullptr
                                                   ? "no measurement on this device says that ours "
                                                     "is faster than the vendor's GEMM"
                                                   : "on such tensors the vendor's GEMM is about "
                                                     "as fast or faster")};
}

// Where nothing is fused, ours must have been measured to be faster at sizes like these.
void choose_bare(const Prepared& prepared, std::size_t step, LateKernels& late,
                 const targets::DeviceProfile& device, StepChoice& choice) {
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[step]);
  choice.measured = "nothing is fused into it";
  const std::optional<double> ratio = tune::bare_ratio(gemm.gemm, choice.sizes, device);
  if (ratio) {
    choice.measured += fmt::format(
        ", and by measurements at such sizes ours takes {:.2f} of the vendor's time", *ratio);
  }
  if (tune::beats_vendor(ratio)) {
    choose_by_model(prepared, step, late, device, choice);
  } else {
    choose_kernel(gemm, choice.sizes, late, device,
                  choice);  // tuning may come to another conclusion
    leave_to_vendor(device, choice);
  }
}

// A choice that was forced or measured.
std::optional<tune::Tuned> known_choice(const plan::Plan& plan, const plan::FusedGemm& gemm,
                                        std::size_t step, const StepChoice& choice,
                                        const ChoiceRules& rules) {
  const bool is_forced = rules.forced != nullptr && rules.forced->step == step;
  if (is_forced && rules.forced->choice != tune::kOneByOne) {
    return tune::Tuned{rules.forced->choice, "being measured"};
  }
  if (rules.tuned == nullptr) return std::nullopt;
  return rules.tuned->find(plan, gemm, choice.form());
}

// The product on rows that were copied in order, where it is one kernel; null where it is not, or
// where no compiler is.
InOrder* product_in_order(const Prepared& prepared, std::size_t step, LateKernels& late) {
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[step]).gemm;
  if (prepared.plan.graph[gemm.a.value].op != ir::Op::take_rows) return nullptr;
  try {
    return late.in_order(prepared.plan, step);
  } catch (const UnavailableError&) {
    return nullptr;
  }
}

// What has no pass of ours to save: a bias, which the vendor's product adds too, and what runs as
// product and tail.
std::optional<plan::WhyNot> why_left(const tune::Tuned& tuned, bool adds_one_row) {
  const bool is_split = tuned.choice == tune::kProductAndTail,
             gains_nothing = is_split || adds_one_row,
             is_as_asked = tune::is_left_to_framework(tuned, gains_nothing);
  if (!is_as_asked && !tune::is_left_to_framework(tuned, gains_nothing, /*pads=*/true)) {
    return std::nullopt;
  }
  const std::string framework =
      adds_one_row ? "All there is to fuse is a bias, which the vendor's product adds too"
                   : "Here the vendor's product and a pass for the rest take less time as a "
                     "framework runs them";
  return plan::WhyNot{is_as_asked ? "framework_is_faster" : "framework_is_faster_padded",
                      fmt::format("{}: {:.1f} us as measured{}, {} {:.1f} us.", framework,
                                  is_as_asked ? tuned.framework_us : tuned.padded_us,
                                  is_as_asked ? "" : " with padded operands",
                                  is_split ? "ours" : "the best kernel", tuned.us)};
}

// Names of candidates begin with their family's.
bool is_of_another(const std::string& name, const StepChoice& choice) {
  return !name.starts_with(fmt::format("{}, ", choice.kernels->family->name));
}

// False when the kernel of that name is no candidate any more, or does not compile well.
bool follow(const tune::Tuned& tuned, const Prepared& prepared, std::size_t step, LateKernels& late,
            const codegen::Bound& bound, const targets::DeviceProfile& device, StepChoice& choice) {
  const StepKernels* const own = choice.kernels;
  if (tuned.choice == tune::kProductAndTail) {
    choice.why_split = plan::WhyNot{"measured_slower", tuned.measured + "."};
  } else if (tuned.choice == tune::kRowsFirst) {
    choice.in_order = product_in_order(prepared, step, late);
    if (choice.in_order == nullptr) return false;
  } else if (const auto kernel = tune::kernel_behind_copies(tuned.choice)) {
    const codegen::OperandRoles roles = own->family->roles(choice.variant);
    choice.behind_copies =
        behind_copies(prepared, step, late, bound, device,
                      roles.are_exchanged ? codegen::exchanged(choice.sizes) : choice.sizes,
                      std::numeric_limits<double>::infinity(), *kernel);
    if (!choice.behind_copies) return false;
  } else {
    if (is_of_another(tuned.choice, choice)) {
      const StepKernels* const others = others_kernels(prepared, step, late, bound, choice);
      if (others == nullptr) return false;
      choice.kernels = others;
    }
    choice.kernel = late.candidate(prepared, step, *choice.kernels, tuned.choice);
    if (choice.kernel == nullptr) {
      choice.kernels = own;
      return false;
    }
  }
  choice.measured = tuned.measured;
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[step]);
  choice.why_left = why_left(tuned, tune::adds_one_row(gemm, choice.sizes));
  return true;
}

// All ways take longer on rows off 16-byte boundaries, each in other cases: ours, that of another
// family, the vendor's.
void weigh_unaligned(const Prepared& prepared, std::size_t step, LateKernels& late,
                     const codegen::Bound& bound, const codegen::GemmSizes& vendor_sizes,
                     const targets::DeviceProfile& device, StepChoice& choice) {
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[step]);
  const codegen::OperandRoles roles = prepared.steps[step].family->roles(choice.variant);
  const auto slower = weigh_vendor(gemm, bound, roles, vendor_sizes, device, choice);
  if (!slower || slower->another == 0) return;
  const targets::DeviceRates& rates = device.known->measured->rates;
  const auto aligned_us = expected_of_variant(prepared.steps[step], gemm, choice.variant,
                                              Operands::aligned, choice.sizes, late, device);
  if (!aligned_us) return;
  const double another_us = targets::slowed_down(*aligned_us, slower->another, rates);
  if (another_us >= choice.expected_us) return;
  const StepKernels* const others = others_kernels(prepared, step, late, bound, choice);
  if (others == nullptr) return;
  choice.kernels = others;
  choose_by_model(prepared, step, late, device, choice);
  choice.expected_us = another_us;
}

// Of tensors that the family cannot address, as matrices of a batch off 16-byte boundaries: where
// their copies can be, the kernel behind those or product and tail.
void choose_copies(const Prepared& prepared, std::size_t step, LateKernels& late,
                   const codegen::Bound& bound, const targets::DeviceProfile& device,
                   const ChoiceRules& rules, StepChoice& choice) {
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[step]);
  if (!may_copy(prepared, late, device)) return;
  if (plan::is_bare(gemm) || choice.sizes.is_empty()) return;
  auto behind = behind_copies(prepared, step, late, bound, device, choice.sizes,
                              std::numeric_limits<double>::infinity());
  if (!behind) return;
  const codegen::GemmSizes vendor_sizes = choice.sizes;
  choice.why_split.reset();
  choice.is_copied = true;
  choice.sizes = behind->sizes;
  choice.kernels = behind->kernels;
  choice.kernel = behind->kernel;
  choice.variant = behind->kernels->variant;
  const auto tuned = known_choice(prepared.plan, gemm, step, choice, rules);
  if (tuned && follow(*tuned, prepared, step, late, bound, device, choice)) return;
  choice.expected_us = behind->expected_us;
  choice.behind_copies = std::move(behind);
  codegen::OperandRoles roles = prepared.steps[step].family->roles(choice.variant);
  const auto is_off = [&](const plan::Operand& operand) {
    return boundary_bytes(bound.tensors[static_cast<std::size_t>(operand.value)], operand.dtype) <
           kBoundaryBytes;
  };
  roles.is_misaligned_a = is_off(roles.are_exchanged ? gemm.gemm.b : gemm.gemm.a);
  roles.is_misaligned_b = is_off(roles.are_exchanged ? gemm.gemm.a : gemm.gemm.b);
  weigh_vendor(gemm, bound, roles, vendor_sizes, device, choice);
  choice.why_split = why_unfused(choice);
}

// Of tensors that the step's family cannot address: copies of them, or another family. Blocks of K
// with scales are not copied.
void choose_unaddressed(const Prepared& prepared, std::size_t step, LateKernels& late,
                        const codegen::Bound& bound, const targets::DeviceProfile& device,
                        const ChoiceRules& rules, StepChoice& choice) {
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[step]).gemm;
  if (gemm.is_scaled()) choose_another(prepared, step, late, bound, device, choice);
  if (choice.why_split) choose_copies(prepared, step, late, bound, device, rules, choice);
  if (choice.why_split && !gemm.is_scaled() && !choice.is_copied) {
    choose_another(prepared, step, late, bound, device, choice);
  }
}

// `read`: the tensors as kernels of the step's own family read them.
StepChoice choose_on(const Prepared& prepared, std::size_t step, LateKernels& late,
                     const codegen::Bound& bound, const ReadTensors& read,
                     const ChoiceRules& rules) {
  const StepKernels& usual = prepared.steps[step];
  const codegen::KernelFamily& family = *usual.family;
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[step]);
  targets::DeviceProfile device = rules.device;
  if (prepared.is_named) device.known = nullptr;  // no measurement is weighed against it
  StepChoice choice;
  choice.kernels = &usual;
  codegen::GemmSizes& sizes = choice.sizes = tune::gemm_sizes(gemm.gemm, read.bound());
  choice.why_split = family.why_not_bound(prepared.plan, gemm, read.bound());
  if (choice.why_split) {
    choose_unaddressed(prepared, step, late, bound, device, rules, choice);
    return choice;
  }
  if (sizes.is_empty()) {
    choice.kernel = &usual.kernels.front();
    return choice;
  }
  const codegen::GemmVariant variant = choice.variant =
      family.variant(prepared.plan, gemm, read.bound());
  const codegen::OperandRoles roles = family.roles(variant);
  const codegen::GemmSizes vendor_sizes = sizes;
  if (!roles.are_misaligned()) choice.unfused_us = tune::unfused_us(gemm, sizes, device);
  const bool is_usual = variant == usual.variant,
             is_bare = !prepared.is_named && plan::is_bare(gemm) && !gemm.gemm.has_groups() &&
                       !gemm.gemm.has_narrow();  // which the vendor is given widened
  if (is_bare && !is_usual) {
    leave_to_vendor(device, choice);
    return choice;
  }
  if (roles.are_exchanged) sizes = codegen::exchanged(sizes);
  const auto tuned = known_choice(prepared.plan, gemm, step, choice, rules);
  if (!tuned && roles.are_misaligned() &&
      copies_win(prepared, step, late, bound, vendor_sizes, device, choice)) {
    return choice;
  }
  if (!is_usual) choice.kernels = &late.variant(prepared, step, variant, sizes);
  if (choice.kernels->kernels.empty()) {
    choice.why_split = no_kernel(*choice.kernels);
    sizes = vendor_sizes;
    choose_another(prepared, step, late, bound, device, choice);
    return choice;
  }
  if (tuned && follow(*tuned, prepared, step, late, bound, device, choice)) return choice;
  if (is_bare) {
    choose_bare(prepared, step, late, device, choice);
    return choice;
  }
  choose_by_model(prepared, step, late, device, choice);
  if (roles.are_misaligned()) {
    weigh_unaligned(prepared, step, late, bound, vendor_sizes, device, choice);
    weigh_copies(prepared, step, late, bound, vendor_sizes, device, choice);
  }
  if (!read.copies().empty() && choice.kernels->family->name == family.name) {
    choice.expected_us += copies_us(read.copies(), device);
    weigh_without_copies(prepared, step, late, bound, device, choice);
  }
  choice.why_split = why_unfused(choice);
  if (is_usual && late.compiles_for_sizes() && tune::wants_rows_first(gemm, sizes, device)) {
    choice.in_order = product_in_order(prepared, step, late);
  }
  return choice;
}

}  // namespace

StepChoice choose_step(const Prepared& prepared, std::size_t step, LateKernels& late,
                       const codegen::Bound& bound, const ChoiceRules& rules) {
  const ReadTensors read(std::get<plan::FusedGemm>(prepared.plan.steps[step]), bound);
  StepChoice choice = choose_on(prepared, step, late, bound, read, rules);
  const bool is_own =
      !choice.why_split && choice.kernels->family->name == prepared.steps[step].family->name;
  if (is_own) choice.k_major_copies = read.copies();
  return choice;
}

std::string print(const StepChoice& choice) {
  if (choice.behind_copies) {
    const BehindCopies& behind = *choice.behind_copies;
    return fmt::format("{}, behind copies of misaligned operands",
                       candidate_name(*behind.kernels, behind.kernel->config));
  }
  const std::string text = candidate_name(*choice.kernels, choice.kernel->config);
  const std::string variant = codegen::print(choice.kernels->variant);
  const std::string_view copies = choice.k_major_copies.empty()       ? ""
                                  : choice.k_major_copies.size() == 1 ? ", behind a copy along K"
                                                                      : ", behind copies along K";
  return fmt::format("{}{}{}{}", text, variant.empty() ? "" : "; ", variant, copies);
}

std::string grounds(const StepChoice& choice) {
  if (!choice.measured.empty()) return choice.measured;
  if (choice.expected_us == 0) return "";
  std::string text = fmt::format("{:.1f} us expected", choice.expected_us);
  if (choice.unfused_us) {
    text += fmt::format(", {:.1f} us as product and tail", *choice.unfused_us);
  }
  return text;
}

}  // namespace epifuse::cuda
