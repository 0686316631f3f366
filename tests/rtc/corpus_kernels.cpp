// Every kernel that the corpus and the examples can ask for on the CUDA targets.
#include "corpus_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/hash.h"
#include "codegen/grouped.h"
#include "codegen/k_major_copies.h"
#include "codegen/pointer_arrays.h"
#include "codegen/side_by_side.h"
#include "codegen/tail.h"
#include "codegen/transpose.h"
#include "epifuse/error.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "plan/plan.h"

namespace epifuse::rtc {
namespace {

using plan::Plan;
using targets::TargetInfo;

// Each folder's graphs by name, not by subfolder: of equal kernels the first graph's is kept, and a
// graph that moves to another subfolder must leave all names of cubins as they were.
std::vector<std::filesystem::path> graph_files() {
  std::vector<std::filesystem::path> files;
  for (const char* folder : {"examples", "tests/corpus"}) {
    const std::filesystem::path root = std::filesystem::path(EPIFUSE_SOURCE_DIR) / folder;
    const auto num_before = std::ssize(files);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.path().extension() == ".epi") files.push_back(entry.path());
    }
    std::sort(files.begin() + num_before, files.end(),
              [](const auto& a, const auto& b) { return a.filename() < b.filename(); });
  }
  return files;
}

class Collector {
 public:
  Collector() = default;
  Collector(std::string_view family, const TargetInfo& target) : family_(family), only_(&target) {}

  void add_graph(const std::filesystem::path& file) {
    graph_ = file.stem().string();
    turn_ = 0;
    for (const char letter : graph_) turn_ = hash_next(turn_, static_cast<unsigned char>(letter));
    const ir::Graph graph = ir::parse(read_file(file).value());
    if (only_ != nullptr) {
      add_plan(plan_of(graph, Numerics::fast), *only_);
      return;
    }
    for (const Numerics numerics : {Numerics::fast, Numerics::exact, Numerics::approx}) {
      add_plan(plan_of(graph, numerics), targets::usual_target(DeviceKind::cuda));
    }
    add_elsewhere(graph);
  }

  std::vector<CorpusKernel> kernels;

 private:
  // Every second graph is compiled for one of the other targets, by the graph's name; of those that
  // multiply 8-bit floats all but a fifth for one that takes them.
  void add_elsewhere(const ir::Graph& graph) {
    const bool has_fp8 = multiplies_fp8(graph);
    std::vector<const TargetInfo*> others;
    for (const TargetInfo& target : targets::all_targets()) {
      if (target.kind != DeviceKind::cuda || is_usual(target)) continue;
      if (!has_fp8 || target.fp8_macs_per_clock > 0) others.push_back(&target);
    }
    const std::uint64_t num_turns = has_fp8 ? others.size() + 1 : 2 * others.size();
    const std::uint64_t turn = turn_ / 4 % num_turns;
    const bool is_left_out = has_fp8 ? turn == others.size() : turn % 2 != 0;
    if (is_left_out) return;
    add_plan(plan_of(graph, Numerics::fast), *others[has_fp8 ? turn : turn / 2]);
  }

  static bool multiplies_fp8(const ir::Graph& graph) {
    return std::ranges::any_of(graph.nodes, [&](const ir::Node& node) {
      return ir::is_matmul(node.op) && is_fp8(graph[node.args[0]].type.dtype);
    });
  }

  static Plan plan_of(const ir::Graph& graph, Numerics numerics) {
    return plan::make_plan(passes::run_all(graph, numerics), {numerics, true});
  }

  void add_plan(const Plan& plan, const TargetInfo& target) {
    add_side_by_side(plan, target);
    for (const plan::Step& step : plan.steps) {
      if (const auto* tail = std::get_if<plan::Tail>(&step)) {
        add_tail(plan, *tail, target);
      } else {
        add_product(plan, std::get<plan::FusedGemm>(step), target);
      }
    }
  }

  void add_product(const Plan& plan, const plan::FusedGemm& given, const TargetInfo& target) {
    for (const auto* asked : codegen::families_for(target, family_)) {
      const codegen::KernelFamily& family = *asked;
      plan::FusedGemm step = given;
      if (codegen::why_not_with_copies(family, plan, step, target)) continue;
      if (codegen::has_k_major_copies(step.gemm)) {
        add("transpose", codegen::transpose_source(target));
      }
      const std::vector<codegen::GemmConfig> configs = family.configs(step, target);
      for (std::size_t i = 0; i < configs.size(); ++i) {
        if (!takes(i, configs.size(), plan.numerics, target)) continue;
        add(family, plan, step, configs[i], {}, "", target);
      }
      if (plan.numerics == Numerics::fast && turn_ % 4 == 0) {
        add_misaligned(plan, step, family, configs, target);
      }
      if (plan.numerics == Numerics::fast && turn_ % 4 == 1) {
        add_full_off_boundaries(plan, step, family, configs, target);
      }
      if (plan.numerics == Numerics::fast && turn_ % 3 == 0) {
        add_few_rows(plan, step, family, configs, target);
      }
      if (plan.numerics == Numerics::fast && turn_ % 9 == 0) {
        add_problems(plan, step, family, configs, target);
      }
    }
    if (given.epilogue.reduces()) {
      const Plan finish = plan::finalize(given);
      add_tail(finish, std::get<plan::Tail>(finish.steps.front()), target);
    }
    // Tensors that the family cannot address send the step to the vendor's GEMM and this tail: of
    // every fourth product.
    const plan::Split parts = split(plan, given);
    if (parts.tail && turn_ % 4 == 0) add_tail(plan, *parts.tail, target);
    for (const plan::FusedGemm& bare : parts.gemms) {
      if (bare.gemm.has_groups()) add("grouped", codegen::grouped_source(plan, bare, target));
    }
    ++turn_;
  }

  // Of steps of one A: kernels for all of them, of every config; of the many for any number of rows
  // every eighth, by turns.
  void add_side_by_side(const Plan& plan, const TargetInfo& target) {
    const auto* const family = codegen::family_side_by_side(target, family_);
    if (family == nullptr || plan.numerics != Numerics::fast) return;
    for (const codegen::StepRange range : codegen::side_by_side(plan, *family, target)) {
      const auto& step = std::get<plan::FusedGemm>(plan.steps[range.first]);
      for (const codegen::SideBySideKind& kind : family->side_by_side->kinds) {
        const bool is_for_any = &kind == &family->side_by_side->kinds.back();
        const std::vector<codegen::GemmConfig> configs = kind.configs(step, target);
        for (std::size_t i = 0; i < configs.size(); ++i) {
          if (is_for_any && (i + turn_) % 8 != 0) continue;
          add("side by side", kind.source(plan, step, configs[i], target));
        }
      }
    }
  }

  // Elsewhere than on the usual target a product takes one config, by turns. The kernels of one
  // family are the usual one and another.
  bool takes(std::size_t config, std::size_t num_configs, Numerics numerics,
             const TargetInfo& target) const {
    const bool is_another = config == turn_ / 4 % num_configs;
    if (only_ != nullptr) return config == 0 || is_another;
    return is_usual(target) ? is_turn_of(config, numerics) : is_another;
  }

  static bool is_usual(const TargetInfo& target) {
    return &target == &targets::usual_target(DeviceKind::cuda);
  }

  // All of the level `fast`, of the others and of other targets those of every sixth graph.
  void add_tail(const Plan& plan, const plan::Tail& tail, const TargetInfo& target) {
    const bool is_sample = plan.numerics != Numerics::fast || !is_usual(target);
    if (is_sample && turn_ % 6 != 0) return;
    add("tail", codegen::tail_source(plan, tail, target));
  }

  // All configs of all products would take an hour: every second product takes the usual one, and
  // each some others, by turns. The levels of numerics that compute more take fewer. A graph's
  // turns are its own, so that one more graph moves those of no other.
  bool is_turn_of(std::size_t config, Numerics numerics) const {
    const std::size_t turns = numerics == Numerics::fast ? 353 : 1059;
    const bool is_usual_config = config == 0 && numerics == Numerics::fast && turn_ % 2 == 0;
    return (config + turn_) % turns == 0 || is_usual_config;
  }

  // One or both operands off their alignment, in one of the configs that take them, by turns; of
  // every fourth product.
  void add_misaligned(const Plan& plan, const plan::FusedGemm& step,
                      const codegen::KernelFamily& family,
                      const std::vector<codegen::GemmConfig>& configs, const TargetInfo& target) {
    const std::uint64_t turn = turn_ / 4;
    add_fitted(plan, step, family, configs, misaligned(family, turn % 3 != 1, turn % 3 != 2),
               turn / 3, target);
  }

  // The same of what the epilogue reads and writes in full, by units of 1, 2 or 4 elements.
  void add_full_off_boundaries(const Plan& plan, const plan::FusedGemm& step,
                               const codegen::KernelFamily& family,
                               const std::vector<codegen::GemmConfig>& configs,
                               const TargetInfo& target) {
    const std::uint64_t turn = turn_ / 4;
    std::vector<codegen::GemmConfig> large;
    std::ranges::copy_if(configs, std::back_inserter(large),
                         [&](const auto& config) { return !is_for_few_rows(family, config); });
    const bool may_be_all = !step.gemm.has_groups() && step.gemm.gating == plan::Gating::none;
    const bool with_operands = may_be_all && turn / 3 % 2 == 0;
    add_fitted(plan, step, family, large,
               full_off_boundaries(family, step, 1 << turn % 3, with_operands), turn / 6, target);
  }

  // One of the configs that take a variant, by turns.
  void add_fitted(const Plan& plan, const plan::FusedGemm& step,
                  const codegen::KernelFamily& family,
                  const std::vector<codegen::GemmConfig>& configs,
                  const codegen::GemmVariant& variant, std::uint64_t turn,
                  const TargetInfo& target) {
    if (variant.is_empty()) return;
    const auto fitted = codegen::fitted(family, step, configs, variant, target);
    if (fitted.empty()) return;
    add(family, plan, step, fitted[turn % fitted.size()], variant,
        fmt::format("; {}", print(variant)), target);
  }

  // A config for few rows, by turns; of every third product. Of every twelfth with other operands
  // than aligned ones, too.
  void add_few_rows(const Plan& plan, const plan::FusedGemm& step,
                    const codegen::KernelFamily& family,
                    const std::vector<codegen::GemmConfig>& configs, const TargetInfo& target) {
    std::vector<codegen::GemmConfig> taken;
    std::ranges::copy_if(configs, std::back_inserter(taken),
                         [&](const auto& config) { return is_for_few_rows(family, config); });
    if (taken.empty()) return;
    const std::uint64_t turn = turn_ / 3;
    const codegen::GemmConfig& config = taken[turn % taken.size()];
    add(family, plan, step, config, {}, "", target);
    if (turn % 4 != 0) return;
    const codegen::GemmVariant variant = misaligned(family, turn % 3 != 1, turn % 3 != 2);
    const auto fitted = family.fitted(step, config, variant, target);
    if (!fitted) return;
    add(family, plan, step, *fitted, variant, fmt::format("; {}", print(variant)), target);
  }

  // The kernels of many problems, by turns one of the configs; of every ninth product.
  void add_problems(const Plan& plan, const plan::FusedGemm& step,
                    const codegen::KernelFamily& family,
                    const std::vector<codegen::GemmConfig>& configs, const TargetInfo& target) {
    if (family.pointer_arrays == nullptr || codegen::why_not_pointer_arrays(plan)) return;
    const std::vector<codegen::GemmConfig> taken = family.pointer_arrays->configs(configs);
    if (taken.empty()) return;
    const codegen::GemmConfig& config = taken[turn_ / 9 % taken.size()];
    add(family, plan, step, config, {}, "; pointer arrays", target);
    add("pointer arrays described",
        family.pointer_arrays->describe_source(plan, config, {}, target));
    add("pointer arrays by hand", family.pointer_arrays->by_hand_source(plan, target));
  }

  // A config, and what is leaner than it.
  void add(const codegen::KernelFamily& family, const Plan& plan, const plan::FusedGemm& step,
           const codegen::GemmConfig& config, const codegen::GemmVariant& variant,
           std::string_view what, const TargetInfo& target) {
    const auto source = family.source(plan, step, config, variant, target);
    if (!seen_.insert(source.arch + source.text).second) return;
    kernels.push_back(
        {fmt::format("{} {}{}", family.name, print(config), what), graph_, source, {}});
    for (auto next = leaner(config); next; next = leaner(*next)) {
      kernels.back().leaner.push_back(family.source(plan, step, *next, variant, target));
    }
  }
  void add(std::string kind, codegen::KernelSource source) {
    if (!seen_.insert(source.arch + source.text).second) return;
    kernels.push_back({std::move(kind), graph_, std::move(source), {}});
  }

  std::string family_;  // empty: the usual ones
  const TargetInfo* only_ = nullptr;
  std::string graph_;
  std::uint64_t turn_ = 0;  // of the next product: its graph's name and its place there
  std::set<std::string> seen_;
};

std::vector<CorpusKernel> all_of(Collector collector) {
  for (const std::filesystem::path& file : graph_files()) {
    try {
      collector.add_graph(file);
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", file.string(), error.what()));
    }
  }
  return std::move(collector.kernels);
}

}  // namespace

std::vector<CorpusKernel> corpus_kernels() { return all_of({}); }

std::vector<CorpusKernel> corpus_kernels(std::string_view family, std::string_view target) {
  const TargetInfo* info = targets::find_target(target);
  if (info == nullptr) throw ArgumentError(fmt::format("target: there is no '{}'", target));
  codegen::families_for(*info, family);  // throws
  return all_of({family, *info});
}

}  // namespace epifuse::rtc
