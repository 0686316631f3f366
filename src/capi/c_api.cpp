// The C interface: no exception leaves it.
#include "epifuse/c.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/text.h"
#include "capi/c_options.h"
#include "capi/layout_programs.h"
#include "epifuse/error.h"
#include "jit/compile_inputs.h"
#include "partition/partition.h"

struct EpifuseKernel {
  epifuse::LayoutPrograms programs;
  mutable std::atomic<std::int64_t> calls = 0;  // that were made, failed ones too

  void count_call() const { calls.fetch_add(1, std::memory_order_relaxed); }
};

struct EpifuseCallSite {
  const EpifuseKernel& kernel;
  epifuse::LayoutPrograms::CallSite site;
};

namespace epifuse {
namespace {

static_assert(static_cast<int>(DType::f32) == EPIFUSE_F32 &&
              static_cast<int>(DType::bf16) == EPIFUSE_BF16 &&
              static_cast<int>(DType::f16) == EPIFUSE_F16 &&
              static_cast<int>(DType::e4m3) == EPIFUSE_E4M3 &&
              static_cast<int>(DType::e5m2) == EPIFUSE_E5M2 &&
              static_cast<int>(DType::boolean) == EPIFUSE_BOOL &&
              static_cast<int>(DType::i64) == EPIFUSE_I64 &&
              static_cast<int>(DType::i8) == EPIFUSE_I8);

std::string& last_error() {
  thread_local std::string text;
  return text;
}

EpifuseStatus failed(EpifuseStatus status, const char* prefix, const char* what) noexcept {
  try {
    last_error() = utf8_text(std::string(prefix) + what, EPIFUSE_MAX_ERROR);
  } catch (const std::bad_alloc&) {
    last_error().clear();
  }
  return status;
}

// Of the exception that is being handled.
EpifuseStatus report_failure() {
  constexpr const char* kBug = "internal error, please report it: ";
  try {
    throw;
  } catch (const UnavailableError& error) {
    return failed(EPIFUSE_UNAVAILABLE, "", error.what());
  } catch (const CompileError& error) {
    return failed(EPIFUSE_FAILED, "the run-time compiler refused a kernel: ", error.what());
  } catch (const DeviceError& error) {
    return failed(EPIFUSE_FAILED, "the device failed: ", error.what());
  } catch (const InternalError& error) {
    return failed(EPIFUSE_BUG, kBug, error.what());
  } catch (const Error& error) {
    return failed(EPIFUSE_BAD_INPUT, "", error.what());
  } catch (const std::bad_alloc&) {
    return failed(EPIFUSE_FAILED, "", "out of host memory");
  } catch (const std::exception& error) {
    return failed(EPIFUSE_BUG, kBug, error.what());
  } catch (...) {
    return failed(EPIFUSE_BUG, kBug, "an exception of no known type");
  }
}

template <typename Action>
EpifuseStatus guarded(const Action& action) noexcept {
  try {
    action();
    return EPIFUSE_OK;
  } catch (...) {
    return report_failure();
  }
}

void require(const void* pointer, const char* what) {
  if (pointer == nullptr) throw ArgumentError(fmt::format("expected {}, got a null pointer", what));
}

// Text of which a null pointer is none.
std::string_view text_or_empty(const char* text) { return text == nullptr ? "" : text; }

Graph parse_graph(const char* text) {
  require(text, "a graph's text");
  return Graph::parse(text);
}

// What epifuse_free frees.
char* handed_out(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

// All kernels of the process, and the plans of those that were found to pay.
class KernelTable {
 public:
  const EpifuseKernel& find_or_add(std::string_view graph, std::string_view options) {
    if (const EpifuseKernel* kernel = find({graph, options})) return *kernel;
    const FrameworkOptions parsed = parse_options(options, OptionsOf::kernel);
    std::unique_ptr<EpifuseKernel> kernel(new EpifuseKernel{
        {Graph::parse(graph), Target::parse(parsed.target), parsed.compile, plans_}, 0});
    auto texts = std::make_unique<Texts>(Texts{std::string(graph), std::string(options)});
    const Key key{texts->graph, texts->options};
    const std::unique_lock lock(mutex_);
    const auto [place, is_new] = kernels_.try_emplace(key, Entry{nullptr, std::move(kernel)});
    if (is_new) place->second.texts = std::move(texts);
    return *place->second.kernel;
  }

  plan::Plans& plans() { return plans_; }

  EpifuseCounts counts() const {
    EpifuseCounts sum{};
    sum.plans = plans_.num_made();
    const std::shared_lock lock(mutex_);
    for (const auto& [key, entry] : kernels_) {
      const ProgramStats stats = entry.kernel->programs.stats();
      sum.programs += stats.programs;
      sum.binaries += stats.binaries;
    }
    return sum;
  }

  // Views texts of this table, of which none is ever removed.
  std::vector<KernelUse> uses() const {
    std::vector<KernelUse> all;
    const std::shared_lock lock(mutex_);
    for (const auto& [key, entry] : kernels_) {
      all.push_back({key.graph, key.options, entry.kernel->calls, entry.kernel->programs.stats()});
    }
    return all;
  }

 private:
  struct Texts {
    std::string graph, options;
  };
  struct Key {
    std::string_view graph, options;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      const std::hash<std::string_view> hash;
      return hash(key.graph) * 31 + hash(key.options);
    }
  };
  struct Entry {
    std::unique_ptr<const Texts> texts;  // what the key views
    std::unique_ptr<const EpifuseKernel> kernel;
  };

  const EpifuseKernel* find(const Key& key) const {
    const std::shared_lock lock(mutex_);
    const auto found = kernels_.find(key);
    return found == kernels_.end() ? nullptr : found->second.kernel.get();
  }

  plan::Plans plans_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<Key, Entry, Hash> kernels_;
};

// The one global that changes: callers keep kernels for the life of the process. Never destroyed,
// as the GPU's driver may be gone by then.
KernelTable& kernel_table() {
  static KernelTable& table = *new KernelTable;
  return table;
}

// -1 for a null kernel.
int number_of(const EpifuseKernel* kernel, std::size_t (*ask)(const LayoutPrograms&)) noexcept {
  int number = -1;
  guarded([&] {
    require(kernel, "a kernel");
    number = static_cast<int>(ask(kernel->programs));
  });
  return number;
}

// All inputs or outputs of a kernel.
std::span<const EpifuseTensor> all_of(const EpifuseTensor* tensors, std::size_t count,
                                      const char* what) {
  if (count != 0) require(tensors, what);
  return {tensors, count};
}

}  // namespace
}  // namespace epifuse

using namespace epifuse;

const char* epifuse_version(void) { return jit::epifuse_version().data(); }

const char* epifuse_last_error(void) { return last_error().c_str(); }

void epifuse_free(char* text) { std::free(text); }

EpifuseStatus epifuse_fusions(const char* graph, const char* options, char** json) {
  return guarded([&] {
    require(json, "a place for the answer");
    const Graph parsed = parse_graph(graph);
    const FrameworkOptions host = parse_options(text_or_empty(options), OptionsOf::fusions);
    *json = handed_out(fusions_json(find_fusions(parsed, Target::parse(host.target), host.compile,
                                                 host.fusion, kernel_table().plans())));
  });
}

EpifuseStatus epifuse_reserved_words(char** json) {
  return guarded([&] {
    require(json, "a place for the answer");
    *json = handed_out(reserved_words_json());
  });
}

EpifuseStatus epifuse_describe(const char* graph, char** json) {
  return guarded([&] {
    require(json, "a place for the answer");
    *json = handed_out(describe_json(parse_graph(graph)));
  });
}

EpifuseStatus epifuse_explain(const char* graph, const char* options, char** json) {
  return guarded([&] {
    require(json, "a place for the answer");
    const Graph parsed = parse_graph(graph);
    const FrameworkOptions host = parse_options(text_or_empty(options), OptionsOf::kernel);
    *json = handed_out(compile(parsed, Target::parse(host.target), host.compile).explain_json());
  });
}

EpifuseStatus epifuse_kernel(const char* graph, size_t graph_length, const char* options,
                             size_t options_length, const EpifuseKernel** kernel) {
  return guarded([&] {
    require(graph, "a graph's text");
    require(kernel, "a place for the kernel");
    const std::size_t length = options == nullptr ? 0 : options_length;
    *kernel = &kernel_table().find_or_add({graph, graph_length}, {options, length});
  });
}

int epifuse_num_inputs(const EpifuseKernel* kernel) {
  return number_of(kernel, [](const LayoutPrograms& programs) { return programs.num_inputs(); });
}

int epifuse_num_outputs(const EpifuseKernel* kernel) {
  return number_of(kernel, [](const LayoutPrograms& programs) { return programs.num_outputs(); });
}

int epifuse_is_cuda(const EpifuseKernel* kernel) {
  return number_of(kernel, [](const LayoutPrograms& programs) {
    return std::size_t{programs.target().kind == DeviceKind::cuda};
  });
}

EpifuseStatus epifuse_output(const EpifuseKernel* kernel, const EpifuseTensor* inputs, int index,
                             EpifuseDType* dtype, int32_t* rank, int64_t sizes[EPIFUSE_MAX_RANK]) {
  return guarded([&] {
    require(kernel, "a kernel");
    require(dtype, "a place for the dtype");
    require(rank, "a place for the rank");
    require(sizes, "a place for the sizes");
    const LayoutPrograms& programs = kernel->programs;
    const TensorForm form = programs.output(all_of(inputs, programs.num_inputs(), "inputs"), index);
    *dtype = static_cast<EpifuseDType>(form.dtype);
    *rank = form.rank;
    std::copy_n(form.sizes.begin(), form.rank, sizes);
  });
}

EpifuseStatus epifuse_run(const EpifuseKernel* kernel, const EpifuseTensor* inputs,
                          const EpifuseTensor* outputs, void* stream) {
  return guarded([&] {
    require(kernel, "a kernel");
    kernel->count_call();
    const LayoutPrograms& programs = kernel->programs;
    programs.run(all_of(inputs, programs.num_inputs(), "inputs"),
                 all_of(outputs, programs.num_outputs(), "outputs"), stream);
  });
}

EpifuseStatus epifuse_run_numbers(const EpifuseKernel* kernel, const int64_t* numbers, size_t count,
                                  void* stream) {
  return guarded([&] {
    require(kernel, "a kernel");
    require(numbers, "numbers");
    kernel->count_call();
    kernel->programs.run({numbers, count}, stream);
  });
}

EpifuseStatus epifuse_call_site(const EpifuseKernel* kernel, EpifuseCallSite** site) {
  return guarded([&] {
    require(kernel, "a kernel");
    require(site, "a place for the call site");
    *site = new EpifuseCallSite{*kernel, {}};
  });
}

void epifuse_free_call_site(EpifuseCallSite* site) { delete site; }

EpifuseStatus epifuse_run_at(EpifuseCallSite* site, const int64_t* numbers, size_t count,
                             void* stream) {
  return guarded([&] {
    require(site, "a call site");
    require(numbers, "numbers");
    site->kernel.count_call();
    site->kernel.programs.run({numbers, count}, stream, &site->site);
  });
}

EpifuseStatus epifuse_prepare(const EpifuseKernel* kernel, const EpifuseTensor* inputs) {
  return guarded([&] {
    require(kernel, "a kernel");
    kernel->programs.prepare(all_of(inputs, kernel->programs.num_inputs(), "inputs"));
  });
}

EpifuseStatus epifuse_choice(const EpifuseKernel* kernel, const EpifuseTensor* inputs,
                             char** json) {
  return guarded([&] {
    require(kernel, "a kernel");
    require(json, "a place for the answer");
    *json = handed_out(choice_json(
        kernel->programs.prepare(all_of(inputs, kernel->programs.num_inputs(), "inputs"))));
  });
}

EpifuseCounts epifuse_counts(void) { return kernel_table().counts(); }

EpifuseStatus epifuse_stats(char** json) {
  return guarded([&] {
    require(json, "a place for the answer");
    *json = handed_out(stats_json(kernel_table().uses()));
  });
}
