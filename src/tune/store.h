// Measured choices on disk: what ran a step fastest on a device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/sealed.h"
#include "codegen/config.h"
#include "codegen/gemm_sizes.h"
#include "jit/key_lock.h"
#include "plan/plan.h"

namespace epifuse::tune {

struct Tuned {
  std::string choice;    // "FAMILY, ping-pong 128x192, 4 stages", or kProductAndTail
  std::string measured;  // in words: "33.1 us measured, the best of 17"
  // Of the choice, and what a framework without the kernel takes: the vendor's product and one pass
  // for the rest; 0 where that was not measured. `padded_us`: with padded operands, behind copies.
  double us = 0, framework_us = 0, padded_us = 0;
  bool operator==(const Tuned&) const = default;
};
// Whether a framework is better off without the kernel, by more than measurements scatter; behind
// copies of operands, which are launches too, by anything. Where `gains_nothing`, as the framework
// has the same calls, ours must be ahead: but for one kernel so short that a framework's own call
// takes longer. `pads`: the framework pads the operands.
bool is_left_to_framework(const Tuned& tuned, bool gains_nothing = false, bool pads = false);
inline constexpr std::string_view kProductAndTail = "product and tail";
// Rows of A that are looked up are copied in order by a kernel before the product's.
inline constexpr std::string_view kRowsFirst = "rows copied first";
// Misaligned operands are copied to aligned rows before; then the model chooses among the kernels
// for those, unless one of them is named: "operands copied first, FAMILY, ping-pong 128x192".
inline constexpr std::string_view kOperandsFirst = "operands copied first";
std::string operands_first(std::string_view kernel);
// The kernel of such a choice, "" where the model chooses it; empty for other choices.
std::optional<std::string_view> kernel_behind_copies(std::string_view choice);
// Of steps that may be one launch: "side by side, ping-pong 128x192, 4 stages", or each by itself.
inline constexpr std::string_view kSideBySide = "side by side, ";
inline constexpr std::string_view kOneByOne = "one by one";

// What a choice depends on beside the step.
struct Machine {
  std::string device;  // "NVIDIA H200"
  int driver_version = 0;
  std::string toolchain;    // that compiles kernels, jit::Nvrtc::toolchain; empty where not known
  std::string family = {};  // that was named; empty: the usual ones
};

// What tensors ask of a step.
struct StepForm {
  codegen::GemmSizes sizes;  // as the kernel sees them
  codegen::GemmVariant variant;
  // No kernel of the step's family can address them as they are: `variant` is of their copies.
  bool is_copied = false;
  // Where the step is the first of several that may be one launch: the columns of the others.
  std::vector<std::int64_t> beside = {};
};

// Names a choice: everything that can change the fastest way to run a step, of its sizes their
// class (tune/shape_class.h), and none of the names that a graph gives its values.
std::string tune_key(const plan::Plan& plan, const plan::FusedGemm& step, const StepForm& form,
                     const Machine& machine);

// A folder of choices, under the rules of the kernel cache beside it (jit::KernelCache): any number
// of processes may share it or be killed at any moment. An empty path keeps nothing.
class TuneStore {
 public:
  // `cache` is the folder of the kernel cache; choices are in its `tuned`. Where that cache is not
  // used, nor are they.
  explicit TuneStore(const std::filesystem::path& cache);

  std::optional<Tuned> load(const std::string& key) const;  // corrupt, truncated, absent: empty
  // Whether it is kept, in the place of what was there.
  bool store(const std::string& key, const Tuned& tuned, std::string_view description) const;

  // Held by who measures on a device, by its place in the machine: work of other measurements would
  // lengthen the times. Waits for all threads and processes that have the folder; without one for
  // nobody.
  jit::KeyLock device_alone(std::string_view place) const;

  // Keeps it where nothing is kept under the key yet. What is kept there afterwards: a choice
  // stays, and processes that measure at the same time agree.
  Tuned keep(const std::string& key, const Tuned& tuned, std::string_view description) const;

  struct Entry {
    std::string key, description;
    Tuned tuned;
    std::uintmax_t bytes;
    bool valid, of_other_version = false;
  };
  std::vector<Entry> list() const;  // reads and checks every entry
  std::size_t clear() const;        // number removed
  bool empty() const { return files_.empty(); }
  const std::filesystem::path& folder() const { return files_.folder(); }

 private:
  SealedFolder files_;
};

}  // namespace epifuse::tune
