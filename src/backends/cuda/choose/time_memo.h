// What the families' models of time say, remembered for steps that are alike: a graph may have
// thousands of them.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "codegen/family.h"
#include "plan/plan.h"

namespace epifuse::cuda {

// Numbers fused steps. Two have one number when they differ in nothing but the names of values and
// their places in the graph, of which models and limits know nothing.
class StepClasses {
 public:
  std::size_t of(const plan::FusedGemm& step);

 private:
  std::vector<plan::FusedGemm> classes_;
  std::unordered_multimap<std::size_t, std::size_t> by_hash_;
};

// Thread-safe.
class TimeMemo {
 public:
  struct Best {
    std::size_t index = 0;  // into `configs`
    double us = 0;
  };
  // The config of least expected time: codegen::choose.
  Best best(const codegen::KernelFamily& family, const plan::FusedGemm& step,
            std::span<const codegen::GemmConfig> configs, const codegen::GemmSizes& sizes,
            const targets::DeviceProfile& device);
  // Configs worth compiling: tune::shortlist. `sizes` must follow from the step.
  std::vector<std::size_t> shortlist(const codegen::KernelFamily& family,
                                     const plan::FusedGemm& step,
                                     std::span<const codegen::GemmConfig> configs,
                                     std::span<const codegen::GemmSizes> sizes,
                                     const targets::DeviceProfile& device, std::size_t most);
  std::size_t step_class(const plan::FusedGemm& step);
  // Calls of the two above that were not answered from memory.
  std::size_t num_weighed() const;

 private:
  template <class Answer>
  struct Known {
    std::vector<codegen::GemmConfig> configs;  // that it was asked for
    Answer answer;
  };
  using At = std::tuple<const codegen::KernelFamily*, std::size_t, std::int64_t, std::int64_t,
                        std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                        targets::DeviceProfile>;

  mutable std::mutex mutex_;
  StepClasses classes_;
  std::map<At, std::vector<Known<Best>>> best_;
  std::map<
      std::tuple<const codegen::KernelFamily*, std::size_t, targets::DeviceProfile, std::size_t>,
      std::vector<Known<std::vector<std::size_t>>>>
      shortlists_;  // by family, class, device and `most`
  std::size_t num_weighed_ = 0;
};

}  // namespace epifuse::cuda
