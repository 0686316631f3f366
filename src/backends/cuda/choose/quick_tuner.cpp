// Measures the few best ways to run steps whose choice is not known yet, on memory of its own.
#include "backends/cuda/choose/quick_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "backends/cuda/choose/framework_products.h"
#include "backends/cuda/choose/scratch_tensors.h"
#include "backends/cuda/driver/timing.h"
#include "backends/cuda/run/run_builder.h"
#include "backends/cuda/run/run_side_by_side.h"
#include "base/measure.h"
#include "epifuse/error.h"
#include "tune/framework_rounds.h"
#include "tune/race.h"
#include "tune/unfused.h"

namespace epifuse::cuda {
namespace {

constexpr double kLeast = 0.4;                             // of the budget, after setting up
constexpr double kSettling = 0.1, kMostSettlingUs = 20e3;  // of the budget, under load
constexpr double kOfRace = 0.6;  // of the budget; the rest is for what a framework would run
constexpr int kFinalRounds = 24;
// One launch that is expected to take more of the time of each by itself must be faster than the
// fastest ways of those, which are measured, too.
constexpr double kClearly = 0.8;
constexpr double kFlushUs = 100;
constexpr std::size_t kFewestFlushBytes = std::size_t{64} << 20;

// After one round in which the library loads its kernels.
std::vector<double> medians(RoundTimer& timer, std::span<const std::function<void()>> runs,
                            int rounds) {
  timer.run(runs);
  std::vector<std::vector<double>> samples(runs.size());
  for (int round = 0; round < rounds; ++round) {
    const std::vector<double> us = timer.run(runs);
    for (std::size_t i = 0; i < us.size(); ++i) samples[i].push_back(us[i]);
  }
  std::vector<double> out;
  for (const std::vector<double>& each : samples) out.push_back(median(each));
  return out;
}

// The first actions of a step as product and tail: all up to the last product.
std::size_t num_product_actions(std::span<const Action> actions) {
  std::size_t count = actions.size();
  while (count > 0 && !std::holds_alternative<VendorAction>(actions[count - 1])) --count;
  return count;
}

// A stream that waits for no other.
class OwnStream {
 public:
  explicit OwnStream(const Device& device) : device_(device) {
    device.check(device.api().stream_create(&stream_, jit::kStreamNonBlocking), "cuStreamCreate");
  }
  ~OwnStream() {
    device_.api().stream_synchronize(stream_);
    device_.api().stream_destroy(stream_);
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  jit::CuStream get() const { return stream_; }

 private:
  const Device& device_;
  jit::CuStream stream_ = nullptr;
};

class QuickTuner {
 public:
  QuickTuner(const Prepared& prepared, LateKernels& late, Context& context,
             const backends::CallForm& form, const QuickRules& rules)
      : prepared_(prepared), late_(late), context_(context), form_(form), rules_(rules) {}

  std::vector<TunedStep> run() {
    const auto tensor_bytes = scratch_bytes(prepared_.plan, form_);
    if (tensor_bytes) find_all_ways(*tensor_bytes);
    if (steps_.empty()) return {};
    const auto alone = context_.tuned().device_alone(device().info().place);
    std::vector<TunedStep> tuned = take_known();
    if (!steps_.empty()) leave_out_missing_vendor(context_, steps_);
    if (steps_.empty()) return tuned;
    workspace_bytes_ = most_workspace(prepared_, late_, context_.rules(), form_.bound, steps_);
    const std::size_t bytes = *tensor_bytes + workspace_bytes_ + flush_bytes() + most_products();
    if (has_memory_for(bytes)) {
      std::ranges::move(measure_all(), std::back_inserter(tuned));
      return tuned;
    }
    if (!rules_.again) return tuned;
    throw backends::NotEnoughMemory(fmt::format(
        "measuring at these sizes takes {} bytes of memory, more than are free", bytes));
  }

 private:
  const Device& device() const { return context_.device(); }

  void find_all_ways(std::size_t tensor_bytes) {
    for (std::size_t i = 0; i < prepared_.steps.size(); ++i) {
      const bool is_open = add_together(i, tensor_bytes);
      if (const std::size_t together = rules_.again ? 0 : num_together(i, is_open)) {
        i += together - 1;  // one launch, which is not chosen by what each would take alone
        continue;
      }
      if (is_open) ++num_weighed_twice_;
      if (prepared_.steps[i].kind != StepKind::family) continue;
      if (!rules_.again && take_if_known(i)) continue;
      auto ways = ways_of(i, tensor_bytes);
      if (ways && ways->names.size() > 1) steps_.push_back(*std::move(ways));
    }
  }

  // Of several steps from this one on, where they may be one launch. Whether there are ways.
  bool add_together(std::size_t step, std::size_t tensor_bytes) {
    const auto form = form_side_by_side(prepared_, step, late_, form_.bound);
    if (!form) return false;
    const auto& gemm = std::get<plan::FusedGemm>(prepared_.plan.steps[step]);
    if (!rules_.again && context_.tuned().find(prepared_.plan, gemm, *form)) return false;
    const bool compiles =
        rules_.compiles && (rules_.again || has_memory_for(tensor_bytes + flush_bytes()));
    auto ways = ways_side_by_side(prepared_, step, late_, form_.bound, context_.profile(),
                                  rules_.most_candidates, compiles);
    if (ways->names.size() < 2) return false;
    steps_.push_back(*std::move(ways));
    return true;
  }

  // Without a compiler, and where nothing will be measured for lack of memory, those that are
  // compiled already, unless the caller asked for this measurement.
  std::optional<Ways> ways_of(std::size_t step, std::size_t tensor_bytes) {
    const auto find = [&](bool compiles) {
      return find_ways(prepared_, step, late_, form_.bound, context_.profile(),
                       rules_.most_candidates, compiles);
    };
    if (rules_.again) return find(rules_.compiles);
    try {
      return find(rules_.compiles && has_memory_for(tensor_bytes + flush_bytes()));
    } catch (const UnavailableError&) {
      return find(false);
    }
  }

  // What another process has measured while this one waited for its turn.
  std::vector<TunedStep> take_known() {
    std::vector<TunedStep> known;
    if (rules_.again) return known;
    std::erase_if(steps_, [&](const Ways& ways) {
      const auto& gemm = std::get<plan::FusedGemm>(prepared_.plan.steps[ways.step]);
      auto kept = context_.tuned().kept(prepared_.plan, gemm, ways.form());
      if (!kept) return false;
      known_.keep(prepared_.plan, ways.step, ways.form(), *kept);
      known.push_back({ways.step, ways.form(), *std::move(kept), describe(prepared_, ways)});
      return true;
    });
    return known;
  }

  std::vector<TunedStep> measure_all() {
    const auto start = std::chrono::steady_clock::now();
    const OwnStream stream(device());
    ScratchTensors tensors(context_.shared_device(), prepared_.plan, form_, stream.get());
    const DeviceBuffer workspace(context_.shared_device(), workspace_bytes_);
    memory_ = {&tensors, static_cast<char*>(workspace.data()), stream.get()};
    if (rules_.compares) {  // what later steps read is there from now on
      run(build_run(prepared_, late_, context_, tensors.bound(), memory_.workspace));
    }
    RoundTimer timer(context_.shared_device(), stream.get(), flush_bytes());
    std::vector<TunedStep> tuned;
    put_last_what_goes_together(steps_);
    const double budget_us = rules_.budget_us * (1 - part_weighed_twice());
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (!rules_.again && known_.has(prepared_.plan, steps_[i])) continue;  // of a step alike
      const double left = tune::budget_left(budget_us, i, 1e6 * seconds_since(start));
      auto step = measure(steps_[i], timer, rules_.is_strict ? left : rules_.budget_us);
      if (!step) continue;
      known_.keep(prepared_.plan, steps_[i].step, steps_[i].form(), step->tuned);
      tuned.push_back(*std::move(step));
    }
    return tuned;
  }

  void run(std::span<const Action> actions) const {
    for (const Action& action : actions) cuda::run(device(), action, memory_.stream);
  }

  std::size_t num_together(std::size_t step, bool is_open) {
    return num_side_by_side(prepared_, step, late_, context_.rules(), form_.bound,
                            is_open ? kClearly : 1);
  }

  // Steps share the time of those that are measured by themselves and together.
  double part_weighed_twice() const {
    return static_cast<double>(num_weighed_twice_) / static_cast<double>(steps_.size());
  }

  // Whether the step's choice is known, or it has none.
  bool take_if_known(std::size_t step) {
    const StepChoice choice = choose_step(prepared_, step, late_, form_.bound, context_.rules());
    if (choice.expected_us == 0 && choice.measured.empty()) return true;
    const auto& gemm = std::get<plan::FusedGemm>(prepared_.plan.steps[step]);
    const auto known = context_.tuned().find(prepared_.plan, gemm, choice.form());
    if (known) known_.keep(prepared_.plan, step, choice.form(), *known);
    return known.has_value();
  }

  // Twice the L2 cache is enough to replace what it holds.
  std::size_t flush_bytes() const {
    return std::max(kFewestFlushBytes, 2 * device().info().l2_bytes);
  }

  // Of what a framework would multiply, for the step that needs most.
  std::size_t most_products() const {
    std::size_t bytes = 0;
    for (const Ways& ways : steps_) {
      bytes = std::max(bytes, framework_bytes(prepared_, ways.step, form_.bound));
    }
    return bytes;
  }

  bool has_memory_for(std::size_t bytes) const {
    std::size_t free = 0, total = 0;
    device().check(device().api().mem_get_info(&free, &total), "cuMemGetInfo");
    return static_cast<double>(bytes) <= rules_.part_of_memory * static_cast<double>(free);
  }

  // The launches of each way; a way with other results than the first is left out of both lists.
  std::vector<std::vector<Action>> launches(Ways& ways, std::vector<std::string>& dropped) {
    const ChoiceRules rules = known_.rules(context_);
    std::vector<std::vector<Action>> actions;
    std::vector<std::string> names;
    ScratchTensors::Samples usual;
    for (std::string& name : ways.names) {
      const ForcedChoice way{ways.step, name};
      actions.push_back(build_step(prepared_, ways.step, late_, context_, forced(rules, way),
                                   memory_.tensors->bound(), memory_.workspace, ways.num_steps()));
      const bool has_vendor = name == tune::kProductAndTail || name == tune::kOneByOne;
      if (has_vendor) run(actions.back());  // the library loads its kernels
      if (rules_.compares && is_comparable()) {
        memory_.tensors->poison(memory_.stream);
        run(actions.back());
        ScratchTensors::Samples samples = memory_.tensors->samples(memory_.stream);
        if (names.empty()) usual = samples;
        if (!memory_.tensors->are_alike(usual, samples)) {
          actions.pop_back();
          dropped.push_back(std::move(name));
          continue;
        }
      }
      names.push_back(std::move(name));
    }
    ways.names = std::move(names);
    return actions;
  }

  // Rows that nothing is said of may have any values.
  bool is_comparable() const {
    return std::ranges::none_of(prepared_.plan.graph.nodes, [](const ir::Node& node) {
      return ir::is_grouped_matmul(node.op) || node.op == ir::Op::put_rows;
    });
  }

  std::optional<TunedStep> measure(Ways ways, RoundTimer& timer, double budget_us) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::string> dropped;
    const std::vector<std::vector<Action>> actions = launches(ways, dropped);
    const auto time = [&](std::span<const std::size_t> order) {
      std::vector<std::function<void()>> runs;
      for (const std::size_t way : order) runs.push_back([&, way] { run(actions[way]); });
      return timer.run(runs);
    };
    // Modules are loaded by now, and results compared: both count where the budget is strict. What
    // is loaded once a process must not leave its first kernel without a measurement.
    const double set_up_us = rules_.is_strict ? 1e6 * seconds_since(start) : 0;
    const double left_us = std::max(budget_us - set_up_us, kLeast * rules_.budget_us);
    const auto ready = std::chrono::steady_clock::now();
    const tune::RaceRules rules{.budget_us = kOfRace * left_us,
                                .settling_us = std::min(kSettling * left_us, kMostSettlingUs),
                                .is_strict = rules_.is_strict,
                                .final_rounds = kFinalRounds};
    const tune::RaceResult result =
        tune::race(ways.names.size(), rules, {time, [&] { return 1e6 * seconds_since(ready); }});
    if (result.num_measured < 2) return std::nullopt;
    TunedStep step = tuned_step(ways, result);
    const double after_us = rules_.is_strict ? left_us - 1e6 * seconds_since(ready)
                                             : std::numeric_limits<double>::max();
    try {
      weigh_framework(ways, result, actions, timer, after_us, step.tuned);
    } catch (const DeviceError&) {  // no algorithm, or no memory: nothing is said of a framework
    }
    for (std::size_t i = 0; i < ways.names.size(); ++i) {
      if (result.us[i] > 0) step.ways.emplace_back(ways.names[i], result.us[i]);
    }
    step.dropped = std::move(dropped);
    return step;
  }

  // What a framework takes without the step's kernel: its product, and a pass for the rest.
  void weigh_framework(const Ways& ways, const tune::RaceResult& result,
                       const std::vector<std::vector<Action>>& actions, RoundTimer& timer,
                       double left_us, tune::Tuned& tuned) {
    const auto split = place(ways.names, tune::kProductAndTail);
    const auto chosen = place(ways.names, tuned.choice);
    if (!chosen || !split || result.us[*chosen] == 0 || result.us[*split] == 0) return;
    const FrameworkProducts products(prepared_, ways.step, context_, memory_.tensors->bound(),
                                     memory_.workspace, memory_.stream);
    const bool pads = products.runs().size() > 1, is_known = context_.profile().known != nullptr;
    const auto what = tune::what_fits(
        {result.us[*chosen] + kFlushUs, result.us[*split] + kFlushUs, pads, is_known}, left_us);
    if (products.runs().empty() || !what) return;
    std::vector<std::function<void()>> runs{[&] { run(actions[*chosen]); }};
    const std::span<const Action> of_split = actions[*split];
    if (what->tail) {
      runs.emplace_back([&] { run(of_split); });
      runs.emplace_back([&] { run(of_split.first(num_product_actions(of_split))); });
    }
    const std::size_t asked = runs.size(), padded = asked + (what->product_as_asked ? 1 : 0);
    if (what->product_as_asked) runs.push_back(products.runs().front());
    if (pads) runs.push_back(products.runs().back());
    const std::vector<double> us = medians(timer, runs, what->rounds);
    const double tail_us = framework_tail_us(
        ways, what->tail ? std::optional(std::max(us[1] - us[2], 0.0)) : std::nullopt);
    tuned.us = us.front();
    if (what->product_as_asked) tuned.framework_us = us[asked] + tail_us;
    if (pads) tuned.padded_us = us[padded] + products.copies_us() + tail_us;
  }

  // By the tail of ours where it was measured, and by what a pass at the device's rate takes: on
  // rows off 16-byte boundaries our tail takes longer than a framework's.
  double framework_tail_us(const Ways& ways, std::optional<double> own_us) const {
    const auto& gemm = std::get<plan::FusedGemm>(prepared_.plan.steps[ways.step]);
    const auto by_rate = tune::framework_tail_us(gemm, ways.usual.sizes, context_.profile());
    const auto part = tune::framework_part_of_tail(gemm, ways.usual.sizes);
    if (!own_us) return by_rate.value_or(0);
    return std::min(part * *own_us, by_rate.value_or(std::numeric_limits<double>::max()));
  }

  TunedStep tuned_step(const Ways& ways, const tune::RaceResult& result) const {
    std::string measured = fmt::format("{:.1f} us measured", result.us[result.winner]);
    if (const auto split = place(ways.names, tune::kProductAndTail)) {
      measured += fmt::format(", product and tail {:.1f}", result.us[*split]);
    }
    if (const auto apart = place(ways.names, tune::kOneByOne)) {
      measured += fmt::format(", one by one {:.1f}", result.us[*apart]);
    }
    measured +=
        fmt::format(", the best of {} ways in {} rounds", result.num_measured, result.rounds);
    return {ways.step,
            ways.form(),
            {ways.names[result.winner], std::move(measured)},
            describe(prepared_, ways)};
  }

  const Prepared& prepared_;
  LateKernels& late_;
  Context& context_;
  const backends::CallForm& form_;
  const QuickRules& rules_;
  std::vector<Ways> steps_;
  KnownHere known_;
  std::size_t workspace_bytes_ = 0, num_weighed_twice_ = 0;
  struct {
    ScratchTensors* tensors = nullptr;
    char* workspace = nullptr;
    jit::CuStream stream = nullptr;
  } memory_;  // while steps are measured
};

}  // namespace

std::vector<TunedStep> measure_steps(const Prepared& prepared, LateKernels& late, Context& context,
                                     const backends::CallForm& form, const QuickRules& rules) {
  return QuickTuner(prepared, late, context, form, rules).run();
}

}  // namespace epifuse::cuda
