// Measures every way to run the fused steps of a plan on given tensors.
#include "backends/cuda/choose/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include "backends/cuda/driver/memory.h"
#include "backends/cuda/driver/timing.h"
#include "backends/cuda/run/run_builder.h"
#include "backends/cuda/run/run_side_by_side.h"
#include "backends/overlaps.h"
#include "epifuse/error.h"
#include "tune/rank.h"

namespace epifuse::cuda {
namespace {

using codegen::Bound;

constexpr int kRounds = 12, kFinalRounds = 30, kBlocks = 3;
constexpr double kMostSeconds = 4.0, kBlockSeconds = 0.15;
constexpr std::size_t kFinalists = 8;  // that run again, and back to back too
// Short launches do not reach the card's power limit among others, and back to back they find their
// operands in L2: of these no way is taken that is farther behind launch by launch.
constexpr double kShortUs = 100, kMostBehind = 1.02;

class Tuner {
 public:
  Tuner(const Prepared& prepared, LateKernels& late, Context& context, const Bound& bound)
      : prepared_(prepared), late_(late), context_(context), bound_(bound) {}

  std::vector<TunedStep> run() {
    for (std::size_t i = 0; i < prepared_.steps.size(); ++i) {
      for (auto* find : {ways_side_by_side, find_ways}) {
        auto ways = find(prepared_, i, late_, bound_, context_.profile(), kAllWays, true);
        if (ways) steps_.push_back(*std::move(ways));
      }
    }
    put_last_what_goes_together(steps_);
    if (!steps_.empty()) leave_out_missing_vendor(context_, steps_);
    reserve_workspace();
    run_all();  // what later steps read is there from now on
    std::vector<TunedStep> tuned;
    for (const Ways& ways : steps_) {
      tuned.push_back(measure(ways));
      known_.keep(prepared_.plan, ways.step, ways.form(), tuned.back().tuned);
    }
    return tuned;
  }

 private:
  // For the way that needs most; temporaries of the plan lie at the same place for every one.
  void reserve_workspace() {
    const ChoiceRules rules = context_.rules();
    workspace_ = DeviceBuffer(Device::require(),
                              std::max(workspace_bytes(prepared_, late_, rules, bound_),
                                       most_workspace(prepared_, late_, rules, bound_, steps_)));
  }

  void run_all() {
    for (const Action& action :
         build_run(prepared_, late_, context_, bound_, static_cast<char*>(workspace_.data()))) {
      cuda::run(context_.device(), action, nullptr);
    }
    synchronize(context_.device());
  }

  TunedStep measure(const Ways& ways) {
    std::vector<std::vector<Action>> actions;
    for (const std::string& name : ways.names) {
      const ForcedChoice way{ways.step, name};
      actions.push_back(build_step(prepared_, ways.step, late_, context_,
                                   forced(known_.rules(context_), way), bound_,
                                   static_cast<char*>(workspace_.data()), ways.num_steps()));
    }
    std::vector<std::function<void()>> runs;
    for (const std::vector<Action>& each : actions) {
      runs.push_back([this, &each] {
        for (const Action& action : each) cuda::run(context_.device(), action, nullptr);
      });
    }
    // The shortest of many medians owes something to luck: the finalists are timed once more.
    const auto all = time_interleaved(runs, kRounds, kMostSeconds);
    const std::size_t always =
        place(ways.names, ways.beside.empty() ? tune::kProductAndTail : tune::kOneByOne)
            .value_or(0);
    std::vector<std::string> names;
    std::vector<std::function<void()>> final_runs;
    for (const std::size_t i : tune::finalists(all, kFinalists, always)) {
      names.push_back(ways.names[i]);
      final_runs.push_back(runs[i]);
    }
    const auto interleaved = time_interleaved(final_runs, kFinalRounds, kMostSeconds);
    const auto sustained = time_sustained(final_runs, kBlockSeconds, kBlocks);
    const bool is_short = std::ranges::min(interleaved) < kShortUs;
    const std::size_t best = tune::least_behind(
        interleaved, sustained, is_short ? kMostBehind : std::numeric_limits<double>::infinity());
    std::string measured = fmt::format("{:.1f} us measured and {:.1f} us sustained",
                                       interleaved[best], sustained[best]);
    if (const auto split = place(names, tune::kProductAndTail)) {
      measured += fmt::format(", product and tail {:.1f} and {:.1f}", interleaved[*split],
                              sustained[*split]);
    }
    if (const auto apart = place(names, tune::kOneByOne)) {
      measured +=
          fmt::format(", one by one {:.1f} and {:.1f}", interleaved[*apart], sustained[*apart]);
    }
    measured += fmt::format(", the best of {} ways", ways.names.size());
    return {ways.step, ways.form(), {names[best], std::move(measured)}, describe(prepared_, ways)};
  }

  const Prepared& prepared_;
  LateKernels& late_;
  Context& context_;
  const Bound& bound_;
  std::vector<Ways> steps_;
  KnownHere known_;
  DeviceBuffer workspace_;
};

}  // namespace

bool keep_measured(const plan::Plan& plan, const std::vector<TunedStep>& steps,
                   TunedChoices& choices) {
  bool are_apart = false;
  for (const TunedStep& each : steps) {
    const auto& gemm = std::get<plan::FusedGemm>(plan.steps[each.step]);
    const tune::Tuned kept = choices.keep(plan, gemm, each.form, each.tuned, each.description);
    are_apart = are_apart || kept.choice == tune::kOneByOne;
  }
  return are_apart;
}

void put_last_what_goes_together(std::vector<Ways>& steps) {
  std::ranges::stable_partition(steps, [](const Ways& ways) { return ways.beside.empty(); });
}

std::optional<tune::StepForm> form_of_choice(const Prepared& prepared, codegen::StepRange steps,
                                             LateKernels& late, const codegen::Bound& bound,
                                             const targets::DeviceProfile& device) {
  if (steps.count > 1) return form_side_by_side(prepared, steps.first, late, bound);
  const StepChoice usual = choose_step(prepared, steps.first, late, bound, {device});
  if (usual.kernels == nullptr) return std::nullopt;
  return usual.form();
}

void leave_out_missing_vendor(Context& context, std::vector<Ways>& steps) {
  try {
    context.vendor();  // opens it once, which takes longer than a measurement
  } catch (const UnavailableError&) {
    for (Ways& ways : steps) {
      std::erase(ways.names, tune::kProductAndTail);
      std::erase(ways.names, tune::kOneByOne);
    }
    std::erase_if(steps, [](const Ways& ways) { return ways.names.size() < 2; });
  }
}

std::vector<TunedStep> tune(const Prepared& prepared, LateKernels& late, Context& context,
                            const Bound& bound) {
  // The graph runs many times: an output in place would change what later runs read.
  backends::check_overlaps(prepared.plan, bound, backends::InPlace::refused);
  return Tuner(prepared, late, context, bound).run();
}

}  // namespace epifuse::cuda
