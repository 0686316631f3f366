// The measured choices that hold on one device, from the store on disk; what choices go by.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "targets/device_profile.h"
#include "tune/store.h"

namespace epifuse::cuda {

// Thread-safe. A choice stays what it was when first asked for, so that all parts of a run agree.
class TunedChoices {
 public:
  TunedChoices(tune::Machine machine, tune::TuneStore store)
      : machine_(std::move(machine)), store_(std::move(store)), none_(store_.empty()) {}

  // Held by who measures: TuneStore::device_alone.
  jit::KeyLock device_alone(std::string_view place) const { return store_.device_alone(place); }

  std::optional<tune::Tuned> find(const plan::Plan& plan, const plan::FusedGemm& step,
                                  const tune::StepForm& form);
  // What is on disk now; find() says what was there when it was first asked.
  std::optional<tune::Tuned> kept(const plan::Plan& plan, const plan::FusedGemm& step,
                                  const tune::StepForm& form) const;
  // Keeps it here and on disk where nothing is kept yet. What holds from then on: what another
  // process kept in the meantime, or this.
  tune::Tuned keep(const plan::Plan& plan, const plan::FusedGemm& step, const tune::StepForm& form,
                   const tune::Tuned& tuned, std::string_view description);
  // Keeps it here and on disk, in the place of what was there. Whether the disk took it.
  bool add(const plan::Plan& plan, const plan::FusedGemm& step, const tune::StepForm& form,
           const tune::Tuned& tuned, std::string_view description);

 private:
  const tune::Machine machine_;
  const tune::TuneStore store_;
  std::mutex mutex_;
  bool none_;  // nothing was ever tuned: no key needs to be formed
  std::map<std::string, std::optional<tune::Tuned>> found_;
};

// A choice that was made already, while several are measured.
struct ForcedChoice {
  std::size_t step = 0;
  std::string choice;  // as in tune::Tuned
};

// What choices go by beside the tensors.
struct ChoiceRules {
  targets::DeviceProfile device;
  TunedChoices* tuned = nullptr;         // null: nothing was measured
  const ForcedChoice* forced = nullptr;  // of one step
};

}  // namespace epifuse::cuda
