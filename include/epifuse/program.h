// Compiles a graph for a target and runs it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "epifuse/graph.h"
#include "epifuse/pointer_arrays.h"
#include "epifuse/tensor.h"

namespace epifuse {

/// How closely fused arithmetic follows the source graph (docs/numerics.md).
/// fast: float32 from the accumulator to the store. exact: every rounding of the graph is kept.
/// approx: fast, with cruder hardware functions inside the unfused chain's own error bound.
enum class Numerics : std::uint8_t { fast, exact, approx };
std::string_view name(Numerics numerics);  ///< "fast", "exact" or "approx"

/// When the ways to run a step on a GPU are measured, not only modelled (docs/explain.md). Each
/// choice is kept on disk. off: never. compile: for the sizes that Program::prepare is called for,
/// and by PyTorch while a model compiles. first_use: also at the first run at sizes, outside of
/// stream capture. full: as first_use, but all candidates instead of a few.
enum class Tune : std::uint8_t { off, compile, first_use, full };
std::string_view name(Tune tune);  ///< "off", "compile", "first-use" or "full"

/// What a program is compiled for.
struct Target {
  DeviceKind kind = DeviceKind::cpu;  ///< what runs it
  std::string arch;                   ///< a row of targets.def: "cpu", or a kind of GPU

  static Target cpu();  ///< this machine's CPU
  /// The current CUDA device's architecture; without a GPU the first of targets.def (compiles).
  static Target cuda();
  /// The GPU when there is one that epifuse has kernels for, else the CPU.
  static Target automatic();
  /// "cpu", "cuda", "auto" or a row of targets.def. Throws ArgumentError naming the choices.
  static Target parse(std::string_view text);
};

struct CompileOptions {
  Numerics numerics = Numerics::fast;  ///< docs/numerics.md
  bool fuse = true;  ///< false: one step per op, the baseline that `run` and `bench` divide by
  /// Whether GPUs may multiply float32 matrices as TF32: operands keep 10 of their 23 mantissa
  /// bits, sums stay float32. Several times as fast; off by default. CPUs always multiply in full.
  bool allow_tf32 = false;
  /// Whether a run on a GPU may compile one more kernel, where the model of time expects it to save
  /// 1.5 % at sizes that have not come before: about half a second, once, kept in the kernel cache.
  /// false: the best of those compiled ahead runs. Tensors that none of those can address, e.g.
  /// rows off 16-byte boundaries, get theirs compiled either way.
  bool compile_late = true;
  std::optional<Tune> tune;  ///< empty: as EPIFUSE_TUNE says, which is off where it is not set
  /// The kernel family that takes all products it can on a GPU, by a name of `epifuse devices`:
  /// nothing else is weighed against it then. Empty: the one that suits the GPU. ArgumentError for
  /// a name that is not one of them.
  std::string family;
};

/// A tensor or a run-time scalar bound to a name of the graph.
struct Binding {
  Binding(std::string name_, TensorView view_) : name(std::move(name_)), view(std::move(view_)) {}
  Binding(std::string name_, double scalar_) : name(std::move(name_)), scalar(scalar_) {}
  std::string name;   ///< of an input, scalar or output of the graph
  TensorView view;    ///< of an input or output
  double scalar = 0;  ///< of a scalar, rounded to float32
};

/// A cudaStream_t / CUstream; null is the default stream. Ignored on the CPU.
using Stream = void*;

/// A compiled graph. Serves every value of its size symbols. Copies share one state; all members
/// may be called from any thread.
class Program {
 public:
  /// Runs on the given inputs, scalars and outputs, in any order, matched by name. Sizes are read
  /// off the tensors; outputs may have any strides that keep their elements apart. An output shares
  /// no memory with an input or another output. One exception: it may be an input itself (the same
  /// address, sizes and strides) that the step which writes it reads element by element, as a
  /// residual, and no later step reads. Columns of one buffer that lie between each other share
  /// none. On CUDA the work is queued on `stream` (also while it is being captured) and the call
  /// returns at once. Throws ArgumentError when a tensor is missing or does not fit.
  void run(std::span<const Binding> tensors, Stream stream = nullptr) const;
  void run(std::initializer_list<Binding> tensors, Stream stream = nullptr) const {
    run(std::span<const Binding>(tensors.begin(), tensors.size()), stream);
  }
  /// Runs on many problems at once, each of its own sizes. A graph that becomes one kernel of
  /// matrices (explain_pointer_arrays) takes one launch for all of them, and two small ones beside
  /// it: sizes and addresses are read on the device, so that nothing waits for the host. Any other
  /// runs one problem after another, for which a GPU's arrays are copied to the host first; while a
  /// stream is captured that is not possible (UnavailableError). Throws ArgumentError when a name
  /// is missing or does not fit, and where the host reads the arrays when a problem's tensors do
  /// not.
  void run_pointer_arrays(const PointerArrays& problems, Stream stream = nullptr) const;
  /// How run_pointer_arrays runs this graph: by which kernel, or why one after another. One line.
  std::string explain_pointer_arrays() const;
  /// Compiles what `run` on such tensors needs, if anything, and runs nothing: `data` is only
  /// looked at for its alignment. Where CompileOptions::tune says so, it measures as well, on
  /// memory of its own. For threads beside the one that will run. Throws as `run` does.
  void prepare(std::span<const Binding> tensors) const;
  /// Measures every way to run each fused step on these tensors, and runs the best one from now on
  /// at these sizes. The ways are likely candidates of the step's kernel family and the vendor's
  /// product with a tail kernel; each is timed alone and under sustained load. The choices are kept
  /// beside the kernel cache, and programs compiled later on this machine follow them. Takes a few
  /// seconds a step. Inputs stay as they are, outputs are overwritten. Returns a line for each step
  /// that was measured: none on the CPU. Throws ArgumentError as `run` does, and when an output
  /// is an input itself; UnavailableError without a GPU.
  std::vector<std::string> tune(std::span<const Binding> tensors) const;
  /// Text: what became one kernel, what did not and why, bytes saved, expected time.
  /// `machine` is a row of machines.def; empty picks one that suits the target. With `sizes` the
  /// numbers are given for those sizes; ArgumentError for one below 0 or above kMaxElements.
  std::string explain(const Sizes& sizes = {}, std::string_view machine = "") const;
  /// The same as JSON.
  std::string explain_json(const Sizes& sizes = {}, std::string_view machine = "") const;
  /// Generated sources, one per kernel of the target (empty for the CPU), in plan order.
  std::vector<std::pair<std::string, std::string>> sources() const;
  /// Generated sources of run_pointer_arrays, in the order of their launches; empty where problems
  /// run one after another.
  std::vector<std::pair<std::string, std::string>> pointer_array_sources() const;
  /// Kernels that one run launches, or steps on the CPU.
  int num_kernels() const;
  const Target& target() const;

  struct State;
  explicit Program(std::shared_ptr<State> state) : state_(std::move(state)) {}
  // Copies alone: what was moved from can still be run.
  Program(const Program&) = default;
  Program& operator=(const Program&) = default;
  ~Program() = default;
  const State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

/// Compiles `graph`. Without a GPU a CUDA target still compiles; only running it needs one. Throws
/// GraphError for a graph without outputs, UnavailableError without a needed NVRTC or oneDNN 2.6.
Program compile(const Graph& graph, const Target& target = Target::automatic(),
                const CompileOptions& options = {});

}  // namespace epifuse
