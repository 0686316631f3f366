// Kernels that only certain tensors need, compiled when such tensors come.
#include "backends/cuda/prepare/late_kernels.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "codegen/tail.h"
#include "epifuse/error.h"
#include "tune/unfused.h"

namespace epifuse::cuda {

LateKernels::~LateKernels() = default;

const PreparedSteps& LateKernels::split(const plan::Plan& plan, std::size_t step) {
  const std::scoped_lock lock(mutex_);
  const auto found = splits_.find(step);
  if (found != splits_.end()) return found->second;
  const auto& gemm = std::get<plan::FusedGemm>(plan.steps[step]);
  return splits_.emplace(step, prepare_split(plan, gemm, target_, *jit_)).first->second;
}

const Prepared& LateKernels::copy(DType from, DType to, std::size_t rank) {
  const std::scoped_lock lock(mutex_);
  const auto key = std::tuple(from, to, rank);
  const auto found = copies_.find(key);
  if (found != copies_.end()) return found->second;
  return copies_.emplace(key, prepare_copy(from, to, rank, target_, *jit_)).first->second;
}

bool LateKernels::is_copy_compiled(DType dtype, std::size_t rank) {
  const std::scoped_lock lock(mutex_);
  return copies_.contains(std::tuple(dtype, dtype, rank));
}

const Prepared& LateKernels::scaled_copy(DType from, std::size_t rank) {
  const std::scoped_lock lock(mutex_);
  const auto key = std::pair(from, rank);
  const auto found = scaled_copies_.find(key);
  if (found != scaled_copies_.end()) return found->second;
  return scaled_copies_.emplace(key, prepare_scaled_copy(from, rank, target_, *jit_)).first->second;
}

const Prepared& LateKernels::row_copy(DType dtype, DType index) {
  const std::scoped_lock lock(mutex_);
  const auto key = std::pair(dtype, index);
  const auto found = row_copies_.find(key);
  if (found != row_copies_.end()) return found->second;
  return row_copies_.emplace(key, prepare_row_copy(dtype, index, target_, *jit_)).first->second;
}

InOrder* LateKernels::in_order(const plan::Plan& plan, std::size_t step) {
  const std::scoped_lock lock(mutex_);
  if (in_order_ == nullptr) {
    in_order_.reset(
        new InOrder{{plan, {}}, LateKernels(target_, jit_, for_sizes_, device_, family_)});
    in_order_->prepared.is_named = !family_.empty();
    in_order_->prepared.steps.resize(plan.steps.size());
    for (plan::Step& each : in_order_->prepared.plan.steps) {
      if (auto* gemm = std::get_if<plan::FusedGemm>(&each)) gemm->gemm.a.lookup = -1;
    }
  }
  Prepared& prepared = in_order_->prepared;
  const auto found = is_one_in_order_.find(step);
  if (found != is_one_in_order_.end()) return found->second ? in_order_.get() : nullptr;
  auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[step]);
  auto kernels = prepare_one(prepared.plan, gemm, target_, *jit_, device_, family_);
  is_one_in_order_[step] = kernels.has_value();
  if (!kernels) return nullptr;
  prepared.steps[step] = *std::move(kernels);
  return in_order_.get();
}

const StepKernels& LateKernels::variant(const Prepared& prepared, std::size_t step,
                                        const codegen::GemmVariant& variant,
                                        const codegen::GemmSizes& sizes) {
  const std::scoped_lock lock(mutex_);
  return variant_of(variants_[step], prepared, step, prepared.steps[step], variant, sizes);
}

const StepKernels& LateKernels::variant_of(Variants& variants, const Prepared& prepared,
                                           std::size_t step, const StepKernels& usual,
                                           const codegen::GemmVariant& variant,
                                           const codegen::GemmSizes& sizes) {
  for (const auto& kernels : variants) {
    if (kernels->variant == variant) return *kernels;
  }
  const plan::FusedGemm gemm = as_multiplied(prepared, step, *usual.family);
  variants.push_back(std::make_unique<const StepKernels>(
      prepare_variant(prepared.plan, gemm, usual, variant, sizes, target_, *jit_, device_)));
  return *variants.back();
}

// Without kernels.
std::optional<StepKernels> LateKernels::find_another(const Prepared& prepared, std::size_t step,
                                                     const codegen::Bound& bound,
                                                     const codegen::OperandRoles& roles) const {
  for (const codegen::KernelFamily& family : codegen::all_families()) {
    if (family.name == prepared.steps[step].family->name) continue;
    const plan::FusedGemm gemm = as_multiplied(prepared, step, family);
    if (family.why_not(prepared.plan, gemm, target_)) continue;
    if (family.why_not_bound(prepared.plan, gemm, bound)) continue;
    StepKernels usual;
    usual.variant = family.variant(prepared.plan, gemm, bound);
    if (family.roles(usual.variant).are_exchanged != roles.are_exchanged) continue;
    usual.family = &family;
    usual.candidates = family.configs(gemm, target_);
    usual.sizes = prepared.steps[step].sizes;
    return usual;
  }
  return std::nullopt;
}

const StepKernels* LateKernels::another(const Prepared& prepared, std::size_t step,
                                        const codegen::Bound& bound,
                                        const codegen::OperandRoles& roles,
                                        const codegen::GemmSizes& sizes) {
  const auto usual = find_another(prepared, step, bound, roles);
  if (!usual) return nullptr;
  const std::scoped_lock lock(mutex_);
  const StepKernels& kernels =
      variant_of(others_[step], prepared, step, *usual, usual->variant, sizes);
  return kernels.kernels.empty() ? nullptr : &kernels;
}

codegen::KernelSource LateKernels::source(const Prepared& prepared, std::size_t step,
                                          const StepKernels& kernels,
                                          const codegen::GemmConfig& config) const {
  const plan::FusedGemm gemm = as_multiplied(prepared, step, *kernels.family);
  return kernels.family->source(prepared.plan, gemm, config, kernels.variant, target_);
}

const Kernel* LateKernels::candidate(const Prepared& prepared, std::size_t step,
                                     const StepKernels& kernels, const std::string& name) {
  for (const Kernel& kernel : kernels.kernels) {
    if (candidate_name(kernels, kernel.config) == name) return &kernel;
  }
  const auto config = std::find_if(
      kernels.candidates.begin(), kernels.candidates.end(),
      [&](const codegen::GemmConfig& each) { return candidate_name(kernels, each) == name; });
  if (config == kernels.candidates.end()) return nullptr;
  const std::scoped_lock lock(mutex_);
  auto known = candidates_.find({&kernels, name});
  if (known == candidates_.end()) {
    std::vector tries{*config};
    std::vector<Kernel> compiled;
    const auto only = [&] { return std::vector<std::size_t>(tries.size(), 0); };
    const auto source_of = [&](const codegen::GemmConfig& each) {
      return source(prepared, step, kernels, each);
    };
    compile_candidates({{{tries, compiled, only, source_of}}}, {}, {}, *jit_);
    known = candidates_.emplace(std::pair(&kernels, name), std::move(compiled)).first;
  }
  return known->second.empty() ? nullptr : &known->second.front();
}

const codegen::KernelFamily* LateKernels::family_side_by_side() const {
  return codegen::family_side_by_side(target_, family_);
}

double LateKernels::alone_us(const Prepared& prepared, std::size_t step,
                             const codegen::GemmSizes& sizes,
                             const targets::DeviceProfile& device) {
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[step]);
  const codegen::KernelFamily& family = *family_side_by_side();
  const double us = times_.best(family, gemm, family.configs(gemm, target_), sizes, device).us;
  const auto vendor_us = tune::adds_one_row(gemm, sizes)
                             ? tune::vendor_gemm_us(gemm.gemm, sizes, device)
                             : tune::unfused_us(gemm, sizes, device);
  return std::min(us, vendor_us.value_or(us));
}

codegen::StepRange LateKernels::range_at(const Prepared& prepared, std::size_t step) {
  if (prepared.plan.steps.size() < 2) return {};
  const std::scoped_lock lock(mutex_);
  if (!ranges_) {
    const codegen::KernelFamily* const family = family_side_by_side();
    ranges_.emplace();
    if (family != nullptr) ranges_ = codegen::side_by_side(prepared.plan, *family, target_);
  }
  const auto found = std::ranges::find(*ranges_, step, &codegen::StepRange::first);
  return found == ranges_->end() ? codegen::StepRange{} : *found;
}

SideBySideKernels& LateKernels::side_by_side_of(const Prepared& prepared, codegen::StepRange range,
                                                const codegen::SideBySideKind& kind) {
  const auto [found, is_new] = side_by_side_.try_emplace(std::pair(range.first, &kind));
  if (is_new) {
    const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[range.first]);
    found->second.candidates = kind.configs(gemm, target_);
  }
  return found->second;
}

// The `most` of least time; none is left where there is no compiler: each step runs alone.
void LateKernels::compile_side_by_side(
    const Prepared& prepared, codegen::StepRange range, const codegen::SideBySideKind& kind,
    const std::function<double(const codegen::GemmConfig&)>& us_of, std::size_t most,
    SideBySideKernels& all) {
  const auto& gemm = std::get<plan::FusedGemm>(prepared.plan.steps[range.first]);
  std::vector<Kernel> compiled;
  const auto least = [&] {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < all.candidates.size(); ++i) {
      if (std::isfinite(us_of(all.candidates[i]))) order.push_back(i);
    }
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return us_of(all.candidates[i]); });
    if (order.size() > most) order.resize(most);
    std::erase_if(order, [&](std::size_t i) {
      return std::ranges::find(all.kernels, all.candidates[i], &Kernel::config) !=
             all.kernels.end();
    });
    return order;
  };
  const auto source_of = [&](const codegen::GemmConfig& config) {
    return kind.source(prepared.plan, gemm, config, target_);
  };
  try {
    compile_candidates({{{all.candidates, compiled, least, source_of}}}, {}, {}, *jit_);
  } catch (const UnavailableError&) {
    all.candidates.clear();
  }
  std::ranges::move(compiled, std::back_inserter(all.kernels));
}

SideBySideKernel LateKernels::side_by_side(
    const Prepared& prepared, codegen::StepRange range, const codegen::SideBySideKind& kind,
    const std::function<double(const codegen::GemmConfig&)>& us_of, double below_us) {
  const std::scoped_lock lock(mutex_);
  SideBySideKernels& all = side_by_side_of(prepared, range, kind);
  const auto us_of_known = [&](const Kernel& kernel) { return us_of(kernel.config); };
  constexpr double kClearly = 0.985;  // less than what is compiled is worth compiling
  while (!all.candidates.empty()) {
    double us = std::numeric_limits<double>::infinity();
    for (const codegen::GemmConfig& config : all.candidates) us = std::min(us, us_of(config));
    if (!(us < below_us)) break;
    const auto known = std::ranges::min_element(all.kernels, {}, us_of_known);
    if (known != all.kernels.end() && us_of_known(*known) <= std::min(us / kClearly, below_us)) {
      return {&*known, us_of_known(*known)};
    }
    compile_side_by_side(prepared, range, kind, us_of, 1, all);
  }
  return {};
}

std::vector<const Kernel*> LateKernels::side_by_side_candidates(
    const Prepared& prepared, codegen::StepRange range, const codegen::SideBySideKind& kind,
    const std::function<double(const codegen::GemmConfig&)>& us_of, std::size_t most,
    bool compiles) {
  const std::scoped_lock lock(mutex_);
  SideBySideKernels& all = side_by_side_of(prepared, range, kind);
  if (compiles) compile_side_by_side(prepared, range, kind, us_of, most, all);
  std::vector<const Kernel*> best;
  for (const Kernel& kernel : all.kernels) {
    if (std::isfinite(us_of(kernel.config))) best.push_back(&kernel);
  }
  std::ranges::stable_sort(best, {}, [&](const Kernel* kernel) { return us_of(kernel->config); });
  if (best.size() > most) best.resize(most);
  return best;
}

bool LateKernels::is_compiled(const Prepared& prepared, std::size_t step,
                              const StepKernels& kernels, const codegen::GemmConfig& config) const {
  const auto binary = jit_->find(source(prepared, step, kernels, config));
  return binary != nullptr && binary->problems.empty();
}

bool LateKernels::is_split_compiled(const plan::Plan& plan, std::size_t step) {
  {
    const std::scoped_lock lock(mutex_);
    if (splits_.contains(step)) return true;
  }
  const auto tail = split_tail(plan, step);
  return !tail || jit_->find(*tail) != nullptr;
}

std::optional<codegen::KernelSource> LateKernels::split_tail(const plan::Plan& plan,
                                                             std::size_t step) const {
  const plan::Split parts = plan::split(plan, std::get<plan::FusedGemm>(plan.steps[step]));
  if (!parts.tail) return std::nullopt;
  return codegen::tail_source(plan, *parts.tail, target_);
}

void LateKernels::compile(const Prepared& prepared, std::size_t step, const StepKernels& kernels,
                          std::span<const codegen::GemmConfig> candidates, bool with_split) {
  std::vector<codegen::GemmConfig> configs(candidates.begin(), candidates.end());
  std::optional<codegen::KernelSource> tail;
  if (with_split) tail = split_tail(prepared.plan, step);
  while (!configs.empty() || tail) {
    std::vector<codegen::KernelSource> sources;
    for (const codegen::GemmConfig& config : configs) {
      sources.push_back(source(prepared, step, kernels, config));
    }
    if (tail) sources.push_back(*std::exchange(tail, std::nullopt));
    const auto binaries = jit_->get(sources);  // which keeps them
    std::vector<codegen::GemmConfig> leaner;
    for (std::size_t i = 0; i < configs.size(); ++i) {
      if (binaries[i]->problems.empty()) continue;
      if (auto instead = codegen::leaner(configs[i])) leaner.push_back(*std::move(instead));
    }
    configs = std::move(leaner);
  }
}

}  // namespace epifuse::cuda
