// The measured choices that hold on one device.
#include "backends/cuda/choose/tuned_choices.h"

namespace epifuse::cuda {

std::optional<tune::Tuned> TunedChoices::find(const plan::Plan& plan, const plan::FusedGemm& step,
                                              const tune::StepForm& form) {
  const std::scoped_lock lock(mutex_);
  if (none_) return std::nullopt;
  const std::string key = tune::tune_key(plan, step, form, machine_);
  const auto found = found_.find(key);
  if (found != found_.end()) return found->second;
  return found_.emplace(key, store_.load(key)).first->second;
}

std::optional<tune::Tuned> TunedChoices::kept(const plan::Plan& plan, const plan::FusedGemm& step,
                                              const tune::StepForm& form) const {
  return store_.load(tune::tune_key(plan, step, form, machine_));
}

tune::Tuned TunedChoices::keep(const plan::Plan& plan, const plan::FusedGemm& step,
                               const tune::StepForm& form, const tune::Tuned& tuned,
                               std::string_view description) {
  const std::string key = tune::tune_key(plan, step, form, machine_);
  const std::scoped_lock lock(mutex_);
  const auto found = found_.find(key);
  if (found != found_.end() && found->second) return *found->second;
  none_ = false;
  const tune::Tuned kept = store_.keep(key, tuned, description);
  found_[key] = kept;
  return kept;
}

bool TunedChoices::add(const plan::Plan& plan, const plan::FusedGemm& step,
                       const tune::StepForm& form, const tune::Tuned& tuned,
                       std::string_view description) {
  const std::string key = tune::tune_key(plan, step, form, machine_);
  const bool is_kept = store_.store(key, tuned, description);
  const std::scoped_lock lock(mutex_);
  none_ = false;
  found_[key] = tuned;
  return is_kept;
}

}  // namespace epifuse::cuda
