// What every backend offers. A row of backends.def.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/call_form.h"
#include "codegen/bound.h"
#include "codegen/pointer_arrays.h"
#include "epifuse/error.h"
#include "plan/plan.h"
#include "targets/targets.h"
#include "tune/shape_class.h"

namespace epifuse::backends {

// How a target runs one step, for `explain`.
struct StepReport {
  std::string how;                    // "FAMILY, pingpong 128x192, 4 stages"
  std::vector<plan::WhyNot> why_not;  // families that refused, in order
};

// A plan as it runs on certain tensors: steps whose kernel cannot address them, or would take
// longer than what it replaces, are split, each for the reason given.
struct RunPlan {
  plan::Plan plan;
  std::vector<plan::WhyNot> splits;
  // By which kernel each step of `plan` runs: "FAMILY, ping-pong 128x192, 4 stages",
  // "cuBLASLt"; empty where there is no choice to tell of (the CPU).
  std::vector<std::string> how;
  // Why it is that one: "35.2 us expected, 61.0 us as product and tail"; empty without a choice.
  std::vector<std::string> grounds;
  // Whether a product runs by no family's kernel: sums of i8 are float32 then.
  bool has_other_products = false;
  // Why a framework that runs the rest of a program is faster without these kernels, as measured.
  std::optional<plan::WhyNot> why_left;
  // Whose measurements the expected times follow, or that the device was not measured: a sentence.
  // Empty where there is no choice.
  std::string profile;
};

// How a step of a plan runs best on certain tensors, as measured.
struct MeasuredStep {
  std::size_t step = 0;
  std::size_t num_steps = 1;         // from there on, that may be one launch
  std::string what;                  // "512x768x3072 bf16 bias+silu"
  std::string choice;                // "FAMILY, ping-pong 128x192, 4 stages"
  std::string measured;              // in words: times, and of how many ways
  std::vector<std::string> dropped;  // ways whose results were not those of the others
  struct Way {
    std::string name;  // as `choice`
    double us = 0;     // the median, in some cases of one round
  };
  std::vector<Way> ways;                           // those that were measured
  double us = 0, framework_us = 0, padded_us = 0;  // as tune::Tuned has them
};

// What Executable::measure measures of a step.
struct MeasureRules {
  double seconds;                                                         // of all ways, at most
  std::size_t most_candidates = std::numeric_limits<std::size_t>::max();  // by the model of time
};

// Ready for all calls of one form. Thread-safe; the executable outlives it.
class PreparedCall {
 public:
  virtual ~PreparedCall() = default;
  // On the tensors and scalars of the form, by number.
  virtual void run(const codegen::CallValues& values, Stream stream) const = 0;
};

// More memory is needed than is free.
struct NotEnoughMemory : UnavailableError {
  using UnavailableError::UnavailableError;
};

// A plan made ready for one target.
class Executable {
 public:
  virtual ~Executable() = default;
  // The plan as this target runs it: steps no family takes are split into vendor GEMM and tail.
  virtual const plan::Plan& plan() const = 0;
  virtual RunPlan plan_for(const codegen::Bound& bound) const = 0;
  // Compiles what a run on such tensors needs; measures where CompileOptions::tune says so.
  virtual void prepare_for(const codegen::Bound& bound) const { plan_for(bound); }
  virtual std::vector<StepReport> report() const = 0;  // one per step of plan()
  virtual std::vector<std::pair<std::string, std::string>> sources() const = 0;
  // Does for all calls of one form what depends on the form alone, now or at the first of them.
  virtual std::shared_ptr<const PreparedCall> prepare(CallForm form) const = 0;
  // Runs on storage (inputs and outputs, by ValueId) and remembers nothing. Views are resolved
  // here, temporaries owned here.
  virtual void run(const codegen::Bound& bound, Stream stream) const = 0;
  // Runs on many problems, which match the plan (backends::match_pointer_arrays).
  virtual void run_pointer_arrays(const codegen::BoundPointerArrays& problems,
                                  Stream stream) const = 0;
  // How it does: one sentence.
  virtual std::string explain_pointer_arrays() const = 0;
  virtual std::vector<std::pair<std::string, std::string>> pointer_array_sources() const {
    return {};
  }
  // Measures the ways to run each step on these tensors and takes the best from now on, on this
  // machine also in later programs: a line for each step that has a choice. Overwrites outputs.
  virtual std::vector<std::string> tune(const codegen::Bound&) const { return {}; }
  // Measures the ways to run each step on such tensors, on memory of its own, and compares their
  // results. Keeps nothing. Throws NotEnoughMemory where the tensors take more memory than is free.
  virtual std::vector<MeasuredStep> measure(const codegen::Bound&, const MeasureRules&) const {
    return {};
  }
  // Steps run so on such tensors from now on; whether they do on this machine in later programs.
  virtual bool keep(const codegen::Bound&, std::span<const MeasuredStep>) const { return true; }
  // Calls of one class share measured choices.
  virtual tune::SizeClass size_class(const codegen::Bound&) const { return {}; }
  // Binaries that the run-time compiler has made for it so far; those of a cache do not count.
  virtual std::int64_t num_compiled() const { return 0; }
  // What the run-time compiler took for them, summed over the threads that it ran in.
  virtual double compile_seconds() const { return 0; }
  // Tensor maps that were encoded for prepared calls so far, for tests that count.
  virtual std::int64_t num_encoded() const { return 0; }
};

struct Backend {
  std::string_view name;
  DeviceKind kind;
  std::unique_ptr<Executable> (*prepare)(const plan::Plan&, const targets::TargetInfo&,
                                         const CompileOptions&);
  // The row of targets.def that this machine's device runs; empty when it has none. Never throws.
  std::string (*detect)();
};
std::span<const Backend> all_backends();

// The address of tensors that are not there: aligned, and never read.
inline void* stand_in_address() {
  constexpr std::uintptr_t kAddress = 4096;
  return reinterpret_cast<void*>(kAddress);
}

// Checks tensors against the graph's inputs and outputs, reads the sizes off them, and resolves the
// views. Throws ArgumentError: what the graph declares, what came. `device` is where data must be.
codegen::Bound bind(const plan::Plan& plan, std::span<const Binding> tensors, DeviceKind device);

// Fills bound.tensors for every view of a value whose storage is bound (after temporaries are set).
void resolve_views(const plan::Plan& plan, codegen::Bound& bound);
// The same for one value that a step reads.
void resolve_view(const ir::Graph& graph, ir::ValueId id, codegen::Bound& bound);

}  // namespace epifuse::backends
