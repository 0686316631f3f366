// Random graphs on their way to a GPU, up to where one is needed: plans, sources, parameter blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "backends/backend.h"
#include "backends/call_form.h"
#include "check/random_graph.h"
#include "codegen/family.h"
#include "codegen/grouped.h"
#include "codegen/patches.h"
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
  int plans = 0, gemms = 0, tails = 0, grouped = 0, swapped = 0, misaligned = 0, scalars = 0,
      gathers = 0, partials = 0, scaled = 0, k_grouped = 0, gated = 0;
};

using codegen::Bound;
using codegen::Launch;

bool same_map(const codegen::TensorMapRequest& a, const codegen::TensorMapRequest& b) {
  return a.offset == b.offset && a.data == b.data && a.dtype == b.dtype && a.rows == b.rows &&
         a.cols == b.cols && a.row_stride == b.row_stride && a.box_rows == b.box_rows &&
         a.box_cols == b.box_cols && a.swizzled == b.swizzled &&
         a.rounds_to_tf32 == b.rounds_to_tf32 && a.batched == b.batched && a.inner == b.inner &&
         a.outer == b.outer && a.inner_stride == b.inner_stride && a.outer_stride == b.outer_stride;
}

class Case {
 public:
  // Addresses have the remainder by 256 that tensors of PyTorch have, or another.
  explicit Case(const RandomGraph& random, std::uintptr_t remainder = 0)
      : remainder_(remainder),
        plan_(plan::make_plan(passes::run_all(random.graph, Numerics::fast), {})) {
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
      if (gemm.gemm.is_grouped() && plan::is_bare(gemm)) {
        ++counts.grouped;
        expect_patched(
            [&](const Bound& bound) { return codegen::grouped_launch(plan_, gemm, bound, {}); },
            bound_, counts);
      }
    }
  }

 private:
  // Never read or written.
  static codegen::BoundTensor fake(std::size_t id, std::vector<std::int64_t> shape,
                                   std::vector<std::int64_t> strides) {
    char* start = reinterpret_cast<char*>(std::uintptr_t{1} << 20);
    return {start + (id << 24), {0, std::move(shape), std::move(strides)}};
  }

  // Launches prepared on placeholders of all memory, patched with its addresses, are those on it.
  void expect_patched(const std::function<Launch(const Bound&)>& launch, const Bound& bound,
                      Counts& counts) const {
    Bound form = bound;
    std::vector<std::uintptr_t> bases;
    std::vector<double> scalars;
    for (std::size_t id = 0; id < bound.tensors.size(); ++id) {
      void* const data = bound.tensors[id].data;
      form.tensors[id].data = nullptr;
      bases.push_back(backends::base_of(data));
      scalars.push_back(static_cast<double>(id) / 8);
      if (data == nullptr || ir::is_view(plan_.graph.nodes[id].op)) continue;
      form.tensors[id].data =
          codegen::placeholder(id, reinterpret_cast<std::uintptr_t>(data) % codegen::kAddressUnit);
    }
    Bound real = bound;
    real.scalars = scalars;
    for (std::size_t id = 0; id < bound.tensors.size(); ++id) {
      form.scalars[id] = codegen::scalar_placeholder(id);
      const bool is_view = ir::is_view(plan_.graph.nodes[id].op);
      if (!is_view || bound.tensors[id].data == nullptr) continue;
      const auto root =
          static_cast<std::size_t>(ir::storage(plan_.graph, static_cast<ir::ValueId>(id)));
      form.tensors[id].data = form.tensors[root].data;
    }
    const codegen::PatchedLaunch patched =
        codegen::find_patches(launch(form), launch(codegen::with_second_placeholders(form)));
    const Launch expected = launch(real);
    const codegen::CallValues values{bases, scalars};
    std::vector<unsigned char> params = patched.launch.params;
    codegen::patch(patched.addresses, patched.scalars, values, params.data());
    EXPECT_EQ(params, expected.params);
    ASSERT_EQ(patched.maps.size(), expected.maps.size());
    for (std::size_t i = 0; i < expected.maps.size(); ++i) {
      codegen::TensorMapRequest map = patched.launch.maps[i];
      map.data = reinterpret_cast<const void*>(values.address(patched.maps[i]));
      EXPECT_TRUE(same_map(map, expected.maps[i])) << "map " << i;
    }
    counts.scalars += static_cast<int>(patched.scalars.size());
  }

  codegen::BoundTensor memory(std::size_t id, const ir::TensorType& type) const {
    std::vector<std::int64_t> shape = ir::eval(type.shape, bound_.sizes);
    std::vector<std::int64_t> strides =
        type.strides.empty() ? TensorView::dense_strides(shape)
                             : ir::eval_strides(type.strides, type.shape, bound_.sizes);
    codegen::BoundTensor tensor = fake(id, std::move(shape), std::move(strides));
    tensor.data = static_cast<char*>(tensor.data) + (id % 3 == 0 ? remainder_ : 0);
    return tensor;
  }

  // Of nothing there is nothing to launch.
  bool has_empty() const {
    return std::ranges::any_of(bound_.tensors, [](const codegen::BoundTensor& tensor) {
      return std::ranges::find(tensor.layout.shape, 0) != tensor.layout.shape.end();
    });
  }

  void launch(const plan::Tail& tail, Counts& counts) const {
    const codegen::KernelSource source = codegen::tail_source(plan_, tail, target_);
    const auto launch = [&](const Bound& bound) {
      return codegen::tail_launch(plan_, tail, bound, targets::reference_gpu().limits);
    };
    EXPECT_NE(source.text.find(source.entry), std::string::npos);
    EXPECT_TRUE(has_empty() || !launch(bound_).params.empty());
    expect_patched(launch, bound_, counts);
    ++counts.tails;
  }

  void launch(const codegen::KernelFamily& family, const plan::FusedGemm& gemm, Counts& counts) {
    if (family.why_not(plan_, gemm, target_) || family.why_not_bound(plan_, gemm, bound_)) return;
    const codegen::GemmVariant variant = family.variant(plan_, gemm, bound_);
    const codegen::OperandRoles roles = family.roles(variant);
    const auto configs = family.configs(gemm, target_);
    // Graphs that exchange operands are few.
    const std::size_t stride = roles.are_exchanged ? 1 : 1 + configs.size() / 5;
    for (std::size_t i = 0; i < configs.size(); i += stride) {
      const auto config = family.fitted(gemm, configs[i], variant, target_);
      if (!config) continue;
      codegen::Bound bound = bound_;
      if (gemm.epilogue.reduces()) bind_partials(family, gemm, *config, variant, bound);
      const auto source = family.source(plan_, gemm, *config, variant, target_);
      EXPECT_NE(source.text.find(source.entry), std::string::npos);
      const auto launch = [&](const Bound& on) {
        return family.launch(plan_, gemm, *config, variant, on, targets::reference_gpu().limits);
      };
      EXPECT_TRUE(has_empty() || !launch(bound).params.empty());
      expect_patched(launch, bound, counts);
      counts.gathers += gemm.gemm.a.lookup >= 0 ? 1 : 0;
      counts.partials += gemm.epilogue.reduces() ? 1 : 0;
      counts.scaled += gemm.gemm.is_scaled() ? 1 : 0;
      counts.k_grouped += gemm.gemm.is_k_grouped() ? 1 : 0;
      counts.gated += gemm.gemm.gating != plan::Gating::none ? 1 : 0;
      counts.swapped += roles.are_exchanged ? 1 : 0;
      counts.misaligned += roles.are_misaligned() ? 1 : 0;
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

  const std::uintptr_t remainder_;
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
    constexpr std::uintptr_t kRemainders[] = {0, 2, 16, 0, 72};
    const std::uintptr_t remainder = kRemainders[seed % std::size(kRemainders)];
    ASSERT_NO_THROW(Case(random, remainder).launch_all(counts)) << "seed " << seed;
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_EQ(counts.plans, 3000);
  EXPECT_GT(counts.gemms, 1000);
  EXPECT_GT(counts.tails, 2000);
  EXPECT_GT(counts.grouped, 20);
  EXPECT_GT(counts.swapped, 0);
  EXPECT_GT(counts.gathers, 5);
  EXPECT_GT(counts.partials, 20);
  EXPECT_GT(counts.misaligned, 100);
  EXPECT_GT(counts.scaled, 100);
  EXPECT_GT(counts.k_grouped, 100);
  EXPECT_GT(counts.gated, 100);
  EXPECT_GT(counts.scalars, 50);
}

// Alternating gates of no columns, among others: there a slice from column 1 on is no slice.
TEST(RandomGraph, IsMadeOfEverySeed) {
  for (std::uint64_t seed = 771'000'000; seed < 771'001'000; ++seed) {
    EXPECT_NO_THROW(random_graph(seed)) << "seed " << seed;
  }
}

TEST(RandomGraph, IsTheSameForASeed) {
  EXPECT_EQ(random_graph(7).graph, random_graph(7).graph);
  EXPECT_NE(ir::print(random_graph(7).graph), ir::print(random_graph(8).graph));
}

}  // namespace
}  // namespace epifuse
