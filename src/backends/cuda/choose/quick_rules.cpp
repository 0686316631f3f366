// How much is measured of steps whose choice is not known yet.
#include "backends/cuda/choose/quick_rules.h"

#include <algorithm>

namespace epifuse::cuda {

QuickRules quick_rules(Tune tune, const targets::DeviceProfile& device, const LateKernels& late,
                       int num_threads) {
  if (tune == Tune::full) return kAllCandidates;
  const bool has_profile = device.known != nullptr;
  QuickRules rules;
  rules.compiles = late.compiles_for_sizes() && (tune == Tune::first_use || !has_profile);
  if (has_profile) return rules;
  constexpr std::size_t kMost = 16;
  rules.most_candidates =
      std::clamp(static_cast<std::size_t>(std::max(num_threads, 1)), rules.most_candidates, kMost);
  rules.budget_us = 150e3;
  return rules;
}

std::size_t num_to_measure(Tune tune, int num_threads, std::size_t num_steps) {
  if (tune == Tune::off || tune == Tune::full) return 0;  // what measures all compiles all
  constexpr std::size_t kKernelAndTail = 2;
  const std::size_t at_once =
      static_cast<std::size_t>(num_threads) / 2 / std::max<std::size_t>(num_steps, 1);
  const std::size_t more = std::max(at_once, kKernelAndTail) - kKernelAndTail;
  return std::min(more, QuickRules{}.most_candidates - 1);
}

}  // namespace epifuse::cuda
