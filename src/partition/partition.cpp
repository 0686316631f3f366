// Finds the kernels of a larger program: levels -> plan -> what pays -> a graph for each kernel.
#include "partition/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "backends/target.h"
#include "base/strided.h"
#include "codegen/k_major_copies.h"
#include "epifuse/error.h"
#include "ir/strides.h"
#include "ir/text.h"
#include "ir/views.h"
#include "partition/fusion_alone.h"
#include "partition/fusion_heads.h"
#include "partition/fusion_kernel.h"
#include "partition/fusion_levels.h"
#include "partition/fusion_region.h"
#include "partition/fusion_request.h"
#include "partition/fusion_side_by_side.h"
#include "partition/why_left.h"
#include "plan/facts.h"
#include "tune/framework_gemm.h"
#include "tune/shortlist.h"

namespace epifuse {
namespace {

using Names = std::set<std::string, std::less<>>;
using Reasons = std::map<std::string, plan::WhyNot, std::less<>>;
using ir::ValueId;

// What must be in memory, whoever computes it, because products and kernels read it.
class ReadByProducts {
 public:
  ReadByProducts(const ir::Graph& graph, const FusionRequest& request)
      : graph_(graph), all_(request.in_memory) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      ids_.emplace(graph.nodes[i].name, static_cast<ValueId>(i));
    }
  }

  // The products' operands and, `with_loads`, all that kernels could read.
  Names of(const std::vector<plan::Plan>& plans, bool with_loads) const {
    Names names = all_;
    for (const plan::Plan& plan : plans) {
      for (const plan::Step& step : plan.steps) {
        const auto* gemm = std::get_if<plan::FusedGemm>(&step);
        if (gemm == nullptr) continue;
        for (const ValueId operand : gemm->gemm.reads()) add(plan.graph, operand, names);
        if (!with_loads) continue;
        for (const plan::Load& load : gemm->epilogue.loads) add(plan.graph, load.value, names);
      }
    }
    return names;
  }

  // The products' operands, and what these kernels do read.
  Names of(const std::vector<plan::Plan>& plans, const std::vector<FusedKernel>& kernels) const {
    Names names = of(plans, false);
    for (const FusedKernel& kernel : kernels) {
      for (const FusionTensor& input : kernel.inputs) add(input.value, names);
    }
    return names;
  }

 private:
  void add(const ir::Graph& graph, ValueId value, Names& names) const {
    add(graph[ir::storage(graph, value)].name, names);
  }
  void add(std::string_view name, Names& names) const {
    const auto found = ids_.find(name);
    if (found != ids_.end()) names.insert(graph_[ir::storage(graph_, found->second)].name);
  }

  const ir::Graph& graph_;
  const Names& all_;
  std::map<std::string_view, ValueId> ids_;
};

class Finder {
 public:
  Finder(const targets::TargetInfo& target, const CompileOptions& options,
         const FusionRequest& request, const FrameworkValues& names,
         const std::set<std::string>& of_products, const Reasons& left_before, plan::Plans& plans)
      : target_(target),
        options_(options),
        request_(request),
        names_(names),
        of_products_(of_products),
        left_before_(left_before),
        plans_(plans),
        most_side_by_side_(most_side_by_side(target, options.family)) {}

  // `fused`: what kernels of this plan may compute, or all; then what they compute.
  void add(const plan::Plan& plan, const std::map<std::string, std::string>& whole_of,
           std::optional<std::set<ValueId>>& fused) {
    const FrameworkPlan framework(plan, request_, fused ? &*fused : nullptr);
    whole_of_ = &whole_of;
    fused_.clear();
    for (const plan::LeftOut& value : plan.left_out) {
      leave_out(plan.graph[value.value].name, value.why);
    }
    lone_.clear(), made_together_.clear();
    num_before_ = found_.kernels.size();
    for (const plan::Step& step : plan.steps) {
      if (const auto* gemm = std::get_if<plan::FusedGemm>(&step)) add_step(framework, *gemm);
    }
    for (const std::vector<LoneProduct>& together : side_by_side(lone_, most_side_by_side_)) {
      add_side_by_side(framework, together);
    }
    fused = fused_;
  }
  const Fusions& found() const { return found_; }
  const Reasons& products_left() const { return products_left_; }

 private:
  void add_step(const FrameworkPlan& framework, const plan::FusedGemm& step) {
    const ir::Graph& graph = framework.plan().graph;
    const std::string& product = graph[step.gemm.matmul].name;
    const auto known = left_before_.find(product);
    const auto try_kernel = [&](const std::vector<ValueId>& values) -> std::optional<plan::WhyNot> {
      if (known != left_before_.end()) return known->second;
      return values.empty() ? nothing_to_fuse(product) : add_kernel(framework, values, step.gemm);
    };
    WorthComputing worth = framework.worth_computing(step);
    const bool is_put = framework.only_puts(worth.values) && is_kernel_alone(step.gemm);
    if (is_put) worth = {{step.gemm.matmul}, true};  // in order its rows are stored sooner
    std::optional<plan::WhyNot> no = try_kernel(worth.values), no_blocks;
    const auto is_block = [&](ValueId id) { return ir::is_block(graph[id].op); };
    if (no && std::ranges::any_of(worth.values, is_block)) {
      no_blocks = no;
      worth = framework.worth_computing(step, false);
      no = try_kernel(worth.values);
    }
    const std::vector<ValueId>& values = worth.values;
    const auto computed = plan::computed_values(framework.plan(), step);
    const std::set<ValueId> results = framework.results({computed.begin(), computed.end()});
    for (const ValueId id : results) {
      if (values.empty() || std::find(values.begin(), values.end(), id) != values.end()) continue;
      leave_out(graph[id].name,
                no_blocks ? *no_blocks : why_left_out(graph[id].name, worth.saves_nothing));
    }
    if (!no || no->code == kNothingToFuse) add_lone(framework, values, step, !no);
    if (!no) return;
    products_left_.insert_or_assign(product, *no);
    for (const ValueId id : values.empty() ? computed : values) {
      if (results.contains(id)) leave_out(graph[id].name, *no);
    }
  }

  std::optional<plan::WhyNot> add_kernel(const FrameworkPlan& framework,
                                         const std::vector<ValueId>& values,
                                         const plan::GemmDesc& gemm) {
    const std::string& product = framework.plan().graph[gemm.matmul].name;
    CutResult cut = cut_kernel(framework, values, names_);
    if (cut.why_not) return cut.why_not;
    const ir::Graph nameless = without_names(cut.kernel.graph);
    Graph graph = Graph::parse(ir::print(nameless));
    const auto plan =
        plans_.of(with_strides_of(cut.kernel.graph, graph.ir()), options_, target_.limits);
    const auto* step =
        plan->steps.size() == 1 ? std::get_if<plan::FusedGemm>(&plan->steps[0]) : nullptr;
    if (step == nullptr) {
      return plan::WhyNot{"not_one_kernel", fmt::format("The work on {} takes more than a kernel: "
                                                        "an operand or a result needs a copy.",
                                                        product)};
    }
    const bool is_bare = plan::is_bare(*step) && !stores_wider(cut.kernel.graph);
    if (is_bare && !is_kernel_alone(gemm)) return nothing_to_fuse(product);
    const bool is_on_cpu = target_.kind == DeviceKind::cpu;
    if (is_on_cpu && framework.has_only_sums_beside(values)) return nothing_to_fuse(product);
    const plan::Plan named = with_framework_names(*plan, nameless, cut.kernel.graph);
    if (auto no = why_not_fused(named, std::get<plan::FusedGemm>(named.steps[0]))) return no;
    if (auto no = why_slower(*step, gemm)) return no;
    keep(framework, values, "matmul_" + plan::identifier(step->epilogue),
         plan::label(step->epilogue), std::move(graph), std::move(cut.kernel));
    return std::nullopt;
  }

  void keep(const FrameworkPlan& framework, const std::vector<ValueId>& values, std::string name,
            std::string epilogue, Graph graph, CutKernel cut) {
    fused_.insert(values.begin(), values.end());
    made_together_.push_back(values);
    found_.kernels.push_back({.name = std::move(name),
                              .epilogue = std::move(epilogue),
                              .graph = std::move(graph),
                              .inputs = std::move(cut.inputs),
                              .outputs = std::move(cut.outputs),
                              .values = framework_names(framework.plan().graph, values)});
  }

  // A product that may get neighbours: alone in its kernel's work, or left out.
  void add_lone(const FrameworkPlan& framework, const std::vector<ValueId>& values,
                const plan::FusedGemm& step, bool has_kernel) {
    const auto sizes = likely_sizes(step.gemm);
    if (!sizes || most_side_by_side_ == 0) return;
    if (has_kernel) {
      lone_.push_back(
          {&step, sizes->m, values, found_.kernels.back().epilogue, found_.kernels.back().name});
      return;
    }
    const auto computed = plan::computed_values(framework.plan(), step);
    const auto is_computed = [&](ValueId id) {
      return std::ranges::find(computed, id) != computed.end();
    };
    std::vector<ValueId> unit = framework.unit(step.gemm.matmul);
    if (!std::ranges::all_of(unit, is_computed)) return;
    lone_.push_back({&step, sizes->m, std::move(unit), "", "matmul"});
  }

  // One kernel for them, in place of those that they have, where it is one launch.
  void add_side_by_side(const FrameworkPlan& framework, const std::vector<LoneProduct>& products) {
    const ir::Graph& graph = framework.plan().graph;
    const std::set<ValueId> together = values_of(products);
    const std::vector<ValueId> values(together.begin(), together.end());
    const std::vector<bool> made = made_of(graph, values, made_together_);
    if (waits_for_itself(graph, together, made)) return;
    CutResult cut = cut_kernel(framework, values, names_);
    if (cut.why_not) return;
    Graph kernel = Graph::parse(ir::print(without_names(cut.kernel.graph)));
    const auto plan =
        plans_.of(with_strides_of(cut.kernel.graph, kernel.ir()), options_, target_.limits);
    const std::int64_t rows = products.front().rows;
    if (!is_one_launch(*plan, products.size(), rows, target_, options_.family)) return;
    std::set<std::string> names;
    for (const ValueId id : values) names.insert(graph[id].name);
    std::vector<FusedKernel> apart = take_those_of(names, found_.kernels);
    std::erase_if(found_.left_out,
                  [&](const LeftOutValue& each) { return names.contains(each.value); });
    keep(framework, values, products.front().name + "_side_by_side", products.front().epilogue,
         std::move(kernel), std::move(cut.kernel));
    found_.kernels.back().apart = std::move(apart);
    move_before_readers(names_of(graph, made, *whole_of_), num_before_, found_.kernels);
  }

  // The framework's values among these, each once: halves of one are the whole of it.
  std::vector<std::string> framework_names(const ir::Graph& graph,
                                           const std::vector<ValueId>& values) const {
    std::vector<std::string> found;
    for (const ValueId id : values) {
      const auto whole = whole_of_->find(graph[id].name);
      const std::string& name = whole == whole_of_->end() ? graph[id].name : whole->second;
      const bool is_new = std::find(found.begin(), found.end(), name) == found.end();
      if (is_new && names_.contains(name)) found.push_back(name);
    }
    return found;
  }

  // Whether a product is stored in a dtype that the framework's has not, but only its work on it.
  static bool stores_wider(const ir::Graph& cut) {
    return std::ranges::any_of(
        cut.outputs, [&](const ir::Output& output) { return plan::widens(cut, output.value); });
  }

  bool is_kernel_alone(const plan::GemmDesc& gemm) const {
    return pays_alone(gemm, likely_sizes(gemm), target_);
  }

  // What the framework runs faster itself, on CPUs by measurements of PyTorch. `gemm`: in its
  // sizes.
  std::optional<plan::WhyNot> why_slower(const plan::FusedGemm& step,
                                         const plan::GemmDesc& gemm) const {
    if (!request_.only_faster) return std::nullopt;
    if (auto why = why_converted(step.gemm.a.dtype)) return why;
    if (target_.kind != DeviceKind::cpu) return std::nullopt;
    if (step.gemm.widens_b()) return framework_widens_faster();
    if (gemm.is_grouped())
      return std::nullopt;  // what frameworks do is slower at all sizes measured
    if (gemm.is_k_grouped()) return framework_sums_groups_faster();
    const auto sizes = likely_sizes(gemm);
    const auto ratio = sizes ? tune::framework_ratio(step, *sizes) : std::nullopt;
    if (!ratio || !tune::is_framework_faster(*ratio)) return std::nullopt;
    return framework_is_faster(*sizes, *ratio);
  }

  // The target has instructions that multiply it, but not those of our kernels.
  std::optional<plan::WhyNot> why_converted(DType dtype) const {
    const bool is_cpu = target_.kind == DeviceKind::cpu;
    const bool takes_fp8 = target_.has_wgmma || target_.fp8_macs_per_clock > target_.macs_per_clock;
    const bool converts = dtype == DType::i8 ? is_cpu : is_fp8(dtype) && !is_cpu && !takes_fp8;
    if (!converts) return std::nullopt;
    return plan::WhyNot{"framework_is_faster",
                        fmt::format("Kernels for {} convert {} to {} bits before they multiply; "
                                    "the framework's own product takes it as it is.",
                                    target_.name, name(dtype), is_cpu ? 32 : 16)};
  }

  // Empty where a symbol is not known.
  std::optional<codegen::GemmSizes> likely_sizes(const plan::GemmDesc& gemm) const {
    std::vector<Dim> dims = gemm.batch;
    dims.insert(dims.end(), {gemm.m, gemm.n, gemm.k});
    for (const Dim& dim : dims) {
      for (const std::string& symbol : dim.symbols()) {
        if (!request_.likely_sizes.contains(symbol)) return std::nullopt;
      }
    }
    return tune::gemm_sizes(gemm, request_.likely_sizes);
  }

  // On GPUs a step that no family takes would run as product and tail, which the framework can do
  // too.
  std::optional<plan::WhyNot> why_not_fused(const plan::Plan& plan, plan::FusedGemm step) const {
    if (target_.kind == DeviceKind::cpu) return std::nullopt;
    std::optional<plan::WhyNot> first;
    for (const auto* family : codegen::families_for(step, target_, options_.family)) {
      auto no = codegen::why_not_with_copies(*family, plan, step, target_);
      if (!no) return std::nullopt;
      if (!first) first = std::move(no);
    }
    return first.value_or(plan::WhyNot{"no_family", "There is no kernel family for the target."});
  }

  // What does not depend on a product, and what plans add, is no news to the framework.
  void leave_out(const std::string& value, const plan::WhyNot& why) {
    if (why.code == "no_matmul" || !of_products_.contains(value)) return;
    found_.left_out.push_back({value, why.code, why.sentence});
  }

  const targets::TargetInfo& target_;
  const CompileOptions& options_;
  const FusionRequest& request_;
  const FrameworkValues& names_;
  const std::set<std::string>& of_products_;  // the framework's values that need one
  const Reasons& left_before_;                // products that stay with the framework
  plan::Plans& plans_;
  const std::size_t most_side_by_side_;
  std::vector<LoneProduct> lone_;                                 // of the plan at hand
  std::vector<std::vector<ValueId>> made_together_;               // of each kernel of that
  std::size_t num_before_ = 0;                                    // kernels of plans before it
  const std::map<std::string, std::string>* whole_of_ = nullptr;  // of the level at hand
  Fusions found_;
  Reasons products_left_;
  std::set<ValueId> fused_;  // of the plan at hand
};

// What becomes kernels of the framework's graph, cut into these levels.
Fusions fusions_of(const std::vector<FusionLevel>& levels, const ir::Graph& graph,
                   const FrameworkValues& names, const targets::TargetInfo& info,
                   const CompileOptions& planned, const FusionRequest& request, plan::Plans& kept) {
  std::set<std::string> of_products;
  const std::vector<bool> needed = needs_product(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (needed[i]) of_products.insert(graph.nodes[i].name);
  }
  std::vector<plan::Plan> plans;
  for (const FusionLevel& level : levels) {
    plans.push_back(plan::make_plan(level.graph, planned, info.limits));
  }
  const ReadByProducts read(graph, request);
  FusionRequest all = request;
  all.in_memory = read.of(plans, true);
  std::vector<std::optional<std::set<ValueId>>> fused(plans.size());
  for (Reasons left;;) {  // what a kernel that does not pay would read, nobody may need to store
    Finder finder(info, planned, all, names, of_products, left, kept);
    for (std::size_t i = 0; i < plans.size(); ++i)
      finder.add(plans[i], levels[i].whole_of, fused[i]);
    Names in_memory = read.of(plans, finder.found().kernels);
    const bool is_settled = finder.products_left().size() == left.size();
    if (is_settled || in_memory == all.in_memory) return finder.found();
    all.in_memory = std::move(in_memory);
    left = finder.products_left();
  }
}

}  // namespace

Fusions find_fusions(const Graph& graph, const Target& target, const CompileOptions& options,
                     const FusionRequest& request, plan::Plans& kept) {
  const targets::TargetInfo& info = target_info(target);
  FrameworkValues names;
  for (const ir::Node& node : graph.ir().nodes) names.emplace(node.name, node.type.shape);
  check(request, graph.ir(), names);
  const CompileOptions planned = options_on(info, options);
  const NamesOfProducts together = most_side_by_side(info, options.family) > 0
                                       ? products_of_one_operand(graph.ir())
                                       : NamesOfProducts{};
  for (NamesOfProducts flat;;) {  // work on heads that no kernel does all of is left as it was
    const std::vector<FusionLevel> levels =
        fusion_levels(graph.ir(), request, takes_heads(info, request, flat, together));
    Fusions found = fusions_of(levels, graph.ir(), names, info, planned, request, kept);
    const NamesOfProducts left = heads_left(levels, found.kernels);
    if (left.empty()) {
      describe_heads(levels, found.kernels);
      return found;
    }
    flat.insert(left.begin(), left.end());
  }
}

Fusions find_fusions(const Graph& graph, const Target& target, const CompileOptions& options,
                     const FusionRequest& request) {
  plan::Plans plans;
  return find_fusions(graph, target, options, request, plans);
}

}  // namespace epifuse
