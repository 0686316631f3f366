// Random graphs on their way to a GPU, up to where one is needed: plans, sources, parameter blocks.
#include <gtest/gtest.h>

#include "backends/backend.h"
#include "check/random_graph.h"
#include "codegen/family.h"
#include "codegen/tail.h"
#include "epifuse/error.h"
#include "epifuse/tensor.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "plan/plan.h"
#include "tests/unit/targets/reference_device.h"

namespace epifuse {
namespace {

struct Counts {
  int plans = 0, gemms = 0, tails = 0;
};

class Case {
 public:
  explicit Case(const RandomGraph& random)
      : plan_(plan::make_plan(passes::run_all(random.graph, Numerics::fast), {})) {
    plan::verify(plan_);
    const ir::Graph& graph = plan_.graph;
    bound_.sizes = random.sizes;
    bound_.tensors.resize(graph.nodes.size());
    bound_.scalars.resize(graph.nodes.size());
    for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
      if (!ir::is_view(graph.nodes[id].op)) bound_.tensors[id] = memory(id, graph.nodes[id].type);
    }
    try {
      backends::resolve_views(plan_, bound_);
      is_bound_ = true;
    } catch (const ArgumentError&) {  // strides that a reshape cannot see through
    }
  }

  void launch_all(Counts& counts) {
    ++counts.plans;
    if (!is_bound_) return;
    for (const plan::Step& step : plan_.steps) {
      if (const auto* tail = std::get_if<plan::Tail>(&step)) {
        launch(*tail, counts);
        continue;
      }
      const auto& gemm = std::get<plan::FusedGemm>(step);
      for (const codegen::KernelFamily& family : codegen::all_families()) {
        launch(family, gemm, counts);
      }
      if (const auto tail = plan::split(plan_, gemm).tail) launch(*tail, counts);
    }
  }

 private:
  // Never read or written.
  static codegen::BoundTensor fake(std::size_t id, std::vector<std::int64_t> shape,
                                   std::vector<std::int64_t> strides) {
    char* start = reinterpret_cast<char*>(std::uintptr_t{1} << 20);
    return {start + (id << 24), {0, std::move(shape), std::move(strides)}};
  }

  codegen::BoundTensor memory(std::size_t id, const ir::TensorType& type) const {
    std::vector<std::int64_t> shape = ir::eval(type.shape, bound_.sizes);
    std::vector<std::int64_t> strides =
        type.strides.empty() ? TensorView::dense_strides(shape)
                             : ir::eval_strides(type.strides, type.shape, bound_.sizes);
    return fake(id, std::move(shape), std::move(strides));
  }

  void launch(const plan::Tail& tail, Counts& counts) const {
    const codegen::KernelSource source = codegen::tail_source(plan_, tail, target_);
    const codegen::Launch launch =
        codegen::tail_launch(plan_, tail, bound_, targets::reference_gpu().limits);
    EXPECT_NE(source.text.find(source.entry), std::string::npos);
    EXPECT_FALSE(launch.params.empty());
    ++counts.tails;
  }

  void launch(const codegen::KernelFamily& family, const plan::FusedGemm& gemm, Counts& counts) {
    if (family.why_not(plan_, gemm, target_) || family.why_not_bound(plan_, gemm, bound_)) return;
    const codegen::GemmVariant variant = family.variant(plan_, gemm, bound_);
    const auto configs = family.configs(gemm, target_);
    for (std::size_t i = 0; i < configs.size(); i += 1 + configs.size() / 5) {
      const auto config = family.fitted(gemm, configs[i], variant, target_);
      if (!config) continue;
      codegen::Bound bound = bound_;
      if (gemm.epilogue.reduces()) bind_partials(family, gemm, *config, variant, bound);
      const auto source = family.source(plan_, gemm, *config, variant, target_);
      EXPECT_NE(source.text.find(source.entry), std::string::npos);
      EXPECT_FALSE(
          family.launch(plan_, gemm, *config, variant, bound, targets::reference_gpu().limits)
              .params.empty());
      ++counts.gemms;
    }
  }

  void bind_partials(const codegen::KernelFamily& family, const plan::FusedGemm& gemm,
                     const codegen::GemmConfig& config, const codegen::GemmVariant& variant,
                     codegen::Bound& bound) const {
    const auto partials =
        family.partials(gemm, config, variant, bound.sizes, targets::reference_gpu().limits);
    for (const plan::Store& store : gemm.epilogue.stores) {
      const auto id = static_cast<std::size_t>(store.value);
      if (store.kind != plan::StoreKind::tile) bound.tensors[id].layout = partials.layout;
    }
  }

  const targets::TargetInfo& target_ = *targets::find_target("sm_90a");
  plan::Plan plan_;
  codegen::Bound bound_;
  bool is_bound_ = false;
};

TEST(RandomKernels, HaveSourcesAndFitTheirParameterBlocks) {
  Counts counts;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const RandomGraph random = random_graph(seed);
    SCOPED_TRACE(ir::print(random.graph));
    ASSERT_NO_THROW(Case(random).launch_all(counts)) << "seed " << seed;
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_EQ(counts.plans, 3000);
  EXPECT_GT(counts.gemms, 1000);
  EXPECT_GT(counts.tails, 2000);
}

TEST(RandomGraph, IsTheSameForASeed) {
  EXPECT_EQ(random_graph(7).graph, random_graph(7).graph);
  EXPECT_NE(ir::print(random_graph(7).graph), ir::print(random_graph(8).graph));
}

}  // namespace
}  // namespace epifuse
