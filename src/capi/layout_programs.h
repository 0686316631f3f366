// A graph that runs on tensors of any strides: a program for each set of layouts that comes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "base/recent_table.h"
#include "capi/c_tensors.h"
#include "compile/program_call.h"
#include "epifuse/c.h"
#include "epifuse/program.h"
#include "ir/graph.h"
#include "plan/plans.h"

namespace epifuse {

// Dtype and sizes of a tensor that is not there yet.
struct TensorForm {
  DType dtype = DType::f32;
  int rank = 0;
  std::array<std::int64_t, EPIFUSE_MAX_RANK> sizes{};
};

// What a graph's programs are and took so far.
struct ProgramStats {
  std::string name;  // "matmul_bias_silu" from the first program on, "kernel" before
  std::int64_t programs = 0, binaries = 0;
  double compile_seconds = 0;  // planning, and NVRTC's time summed over its threads
};
// Of each tensor its address, its sizes and its strides.
using CallNumbers = std::span<const std::int64_t>;

// The inputs of the graph declare no strides: how they lie is read off the tensors of each run. All
// members may be called from any thread.
class LayoutPrograms {
 public:
  class CallSite;
  // Throws ArgumentError when the graph has scalars, declared strides, or sizes that cannot be read
  // off its inputs. `plans` outlives it.
  LayoutPrograms(const Graph& graph, Target target, CompileOptions options, plan::Plans& plans);

  std::size_t num_inputs() const { return inputs_.size(); }
  std::size_t num_outputs() const { return outputs_.size(); }
  const Target& target() const { return target_; }

  // Of output `index`, for inputs whose data and strides are not read. Throws ArgumentError when
  // they do not fit.
  TensorForm output(std::span<const EpifuseTensor> inputs, int index) const;

  // On all inputs and outputs in the graph's order. Compiles when inputs lie as none did before.
  // Where every output is empty nothing runs. Throws as `compile` and Program::run do.
  void run(std::span<const EpifuseTensor> inputs, std::span<const EpifuseTensor> outputs,
           Stream stream) const;

  // The same for the tensors that these numbers make with the graph's dtypes and ranks. `site`
  // remembers the form of its last call.
  void run(CallNumbers numbers, Stream stream, CallSite* site = nullptr) const;

  // Compiles what a run on such inputs needs, and says what it goes by. Their data is not read, and
  // taken to be aligned. Empty where nothing runs.
  std::optional<backends::RunPlan> prepare(std::span<const EpifuseTensor> inputs) const;

  ProgramStats stats() const;

 private:
  // A size: a number, the size of an input's dim, or a polynomial of such.
  struct Size {
    std::int64_t number = 0;
    int input = -1, dim = -1;
    bool is_polynomial = false;
  };
  struct Declared {
    std::string_view role, name;  // "input" or "output"
    const ir::TensorType* type;
    std::vector<Size> sizes;
  };
  // What of an input's strides programs depend on.
  using Layout = std::uint16_t;
  struct Entry {
    std::vector<Layout> layouts;  // of the inputs
    Program program;
  };

  struct Call {
    std::vector<Layout> layouts;
    std::vector<Binding> tensors;
  };

  Call call_on(std::span<const EpifuseTensor> inputs, std::span<const EpifuseTensor> outputs) const;
  Declared declare(std::string_view role, std::string_view name, const ir::TensorType& type) const;
  Size size_of(const Dim& dim) const;
  std::int64_t eval(const Declared& declared, std::size_t dim,
                    std::span<const EpifuseTensor> inputs) const;
  // Dtypes, ranks, and that there are sizes, and strides where those are read.
  static void check_forms(std::span<const Declared> declared,
                          std::span<const EpifuseTensor> tensors, Needs needs);
  static void check_bounds(std::span<const Declared> declared,
                           std::span<const EpifuseTensor> tensors);
  // The first tensors that the numbers make, which are taken from them.
  static std::vector<EpifuseTensor> take_tensors(std::span<const Declared> declared,
                                                 CallNumbers& numbers);
  void check_sizes(std::span<const Declared> declared, std::span<const EpifuseTensor> tensors,
                   std::span<const EpifuseTensor> inputs) const;
  // Does `action` with the program for the call, whose layouts become those of a program that
  // copies where another would fail.
  void with_copies(Call& call, const std::function<void(const Program&)>& action) const;
  // What calls of one form share.
  struct Form {
    std::vector<std::int64_t> numbers;        // of one of them
    std::unique_ptr<const ProgramCall> call;  // null: every output is empty
    std::vector<std::size_t> address_places;  // in the numbers, by number of the tensor
  };
  std::shared_ptr<const Form> find_or_bind(CallNumbers numbers) const;
  std::uint64_t hash_of(CallNumbers numbers) const;
  bool is_of_form(CallNumbers numbers, const Form& form) const;
  static void run_form(const Form& form, CallNumbers numbers, Stream stream);
  std::shared_ptr<const Form> bind(CallNumbers numbers, std::span<const EpifuseTensor> inputs,
                                   std::span<const EpifuseTensor> outputs) const;
  std::vector<std::size_t> address_places(const ir::Graph& graph) const;
  const Program* find(std::span<const Layout> layouts) const;
  const Program& find_or_compile(const std::vector<Layout>& layouts) const;
  Graph with_strides(std::span<const Layout> layouts) const;

  const ir::Graph graph_;
  const Target target_;
  const CompileOptions options_;
  plan::Plans& plans_;
  std::vector<Declared> inputs_, outputs_;
  std::vector<std::size_t> ranks_;    // of inputs, then outputs
  std::size_t num_numbers_ = 0;       // of a call
  mutable std::mutex compiling_;      // held by who compiles
  mutable std::shared_mutex mutex_;   // of entries_
  mutable std::list<Entry> entries_;  // newest first; none is ever removed
  mutable std::atomic<double> planning_seconds_ = 0;
  mutable RecentTable<Form> recent_{kMostForms};
};

// Where a caller calls again and again, mostly by one form. Thread-safe.
class LayoutPrograms::CallSite {
  friend class LayoutPrograms;
  std::atomic<std::shared_ptr<const Form>> last_;
};

}  // namespace epifuse
