// The kernels of many problems that the Hopper GEMM does, and their launches.
#include "codegen/sm90/pointer_arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "codegen/epilogue_cuda.h"
#include "codegen/problem_views.h"
#include "codegen/sm90/dense.h"
#include "codegen/source_text.h"
#include "kernels/abi.h"

namespace epifuse::codegen::sm90 {
namespace {

using plan::FusedGemm;

// Finding a problem takes registers that the largest tiles do not have (spills, 2026-11-23).
constexpr int kMostAccumulators = 128, kFewestMathColumns = 16;
constexpr int kBlocksPerSm = 4;  // of kernels/common/pointer_arrays_by_hand.cuh
constexpr std::size_t kAlignment = 128;

const FusedGemm& only_step(const plan::Plan& plan) {
  return std::get<FusedGemm>(plan.steps.front());
}

// One constant a line.
class DescribeText {
 public:
  explicit DescribeText(const ir::Graph& graph) : views_(graph) {
    const std::vector<std::string> symbols = problem_symbols(graph);
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      line(fmt::format("const long long size{} = sizes[{}];  // {}", i, i, symbols[i]));
    }
    const std::vector<ir::ValueId> tensors = problem_tensors(graph);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto dense = views_.dense_row_stride(static_cast<int>(i));
      if (!dense) continue;
      line(fmt::format(
          "[[maybe_unused]] const long long stride{} = tensors[{}].row_stride({});  // {}", i, i,
          *dense, graph[tensors[i]].name));
    }
  }

  void line(const std::string& line) { text_ += "    " + line + "\n"; }
  // Names a view.
  std::string view(std::string name, const ViewText& view) {
    line(fmt::format("const pointer_arrays::View {} = tensors[{}].{}<{}>(", name, view.tensor,
                     view.is_paired ? "pairs" : "view", element_cuda(view.dtype)));
    line(fmt::format("    {}, {}, {}, {}, {});  // {}", view.offset, view.rows, view.cols,
                     view.row_stride, view.col_stride, view.name));
    return name;
  }
  std::string size(const Dim& dim) const { return views_.text(dim); }
  const std::string& text() const { return text_; }

 private:
  ProblemViews views_;
  std::string text_;
};

// An operand's map: of rows along K as they are, else of rows of K.
void add_operand_map(DescribeText& out, std::string_view field, const plan::Operand& operand,
                     const std::string& view) {
  const bool is_k_major = operand.major == plan::Major::k;
  out.line(fmt::format("out.operand<{}>(&abi::GemmParams::{}, {});", size_bytes(operand.dtype),
                       field,
                       is_k_major ? view : fmt::format("pointer_arrays::transposed({})", view)));
}

void add_operands(DescribeText& out, const FusedGemm& step, const ProductViews& views) {
  const plan::GemmDesc& gemm = step.gemm;
  const std::string a = out.view("a", views.a), b = out.view("b", views.b);
  add_operand_map(out, "a", gemm.a, a);
  if (has_adjacent_gates(gemm)) {
    add_operand_map(out, "b", gemm.b, out.view("all_b", views.all_b));
  } else {
    add_operand_map(out, "b", gemm.b, b);
  }
  out.line(fmt::format("out.by_hand().a = pointer_arrays::matrix({});", a));
  out.line(fmt::format("out.by_hand().b = pointer_arrays::matrix({});", b));
  if (gemm.gating == plan::Gating::none) return;
  const std::string second = out.view("second_b", views.second_b);
  if (!has_adjacent_gates(gemm)) add_operand_map(out, "second_b", gemm.b, second);
  out.line(fmt::format("out.by_hand().second_b = pointer_arrays::matrix({});", second));
}

void add_loads(DescribeText& out, const plan::Epilogue& epilogue, const EpilogueLayout& layout,
               const ProductViews& views) {
  for (std::size_t i = 0; i < epilogue.loads.size(); ++i) {
    const Place& place = layout.loads()[i];
    if (place.list == List::parameters) continue;
    const std::string view = out.view(fmt::format("load{}", i), views.loads[i]);
    const auto vector = [&](std::string_view array, std::string_view function) {
      out.line(fmt::format("out.gemm().{}[{}] = pointer_arrays::{}({});", array, place.index,
                           function, view));
    };
    switch (place.list) {
      case List::rows: vector("rows", "row"); break;
      case List::cols: vector("cols", "column"); break;
      case List::scalars: vector("scalars", "row"); break;
      case List::tiles:
        out.line(fmt::format("out.full_size_map<{}>(&abi::FullSizeMaps::load, {}, {});",
                             place.bytes, place.index, view));
        out.line(fmt::format("out.by_hand().tiles[{}] = pointer_arrays::matrix({});", place.index,
                             view));
        break;
      case List::parameters:
      case List::results:
      case List::partials: break;
    }
  }
}

// As the GEMM writes results.
void add_stores(DescribeText& out, const EpilogueLayout& layout, const ProductViews& views,
                const Config& config) {
  const int cut = cut_columns(config);
  for (std::size_t i = 0; i < views.stores.size(); ++i) {
    const int bytes = layout.stores()[i].bytes, index = layout.stores()[i].index;
    const std::string view = out.view(fmt::format("store{}", i), views.stores[i]);
    out.line(fmt::format("out.full_size_map<{}>(&abi::FullSizeMaps::store, {}, {});", bytes, index,
                         view));
    if (cut % columns_of_slot(bytes) == 0) continue;
    out.line(fmt::format("out.full_size_map<{}>(&abi::FullSizeMaps::cut_store, {}, {});", bytes,
                         index, view));
  }
}

// As they are written by hand: each column of pairs alone.
void add_stores_by_hand(DescribeText& out, const plan::Plan& plan) {
  const FusedGemm apart = as_compiled(only_step(plan), {.unpaired = true});
  const ProductViews views = *product_views(plan, apart);
  const EpilogueLayout layout(apart.epilogue);
  for (std::size_t i = 0; i < views.stores.size(); ++i) {
    const std::string view = out.view(fmt::format("by_hand{}", i), views.stores[i]);
    out.line(fmt::format("out.by_hand().stores[{}] = pointer_arrays::matrix({});",
                         layout.stores()[i].index, view));
  }
}

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}
std::size_t bytes_of_problems(std::int64_t count) {
  return rounded_up(static_cast<std::size_t>(count) * sizeof(abi::Problem));
}

abi::DescribeParams describe_params(const plan::Plan& plan, const Config& config,
                                    const BoundPointerArrays& problems) {
  abi::DescribeParams out{};
  out.tile_rows = config.tile_m;
  out.tile_columns = result_columns(config);
  out.sizes = reinterpret_cast<const long long*>(problems.sizes);
  out.num_sizes = static_cast<int>(problems.symbols.size());
  const std::vector<std::string> symbols = problem_symbols(plan.graph);
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const auto column = std::ranges::find(problems.symbols, symbols[i]) - problems.symbols.begin();
    out.size_columns[i] = static_cast<int>(column);
  }
  const std::vector<ir::ValueId> tensors = problem_tensors(plan.graph);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const BoundPointerArrays::Tensor& from = problems.tensors[static_cast<std::size_t>(tensors[i])];
    out.tensors[i] = {from.data, reinterpret_cast<const long long*>(from.row_strides)};
  }
  return out;
}

}  // namespace

std::vector<Config> pointer_array_configs(const std::vector<Config>& configs) {
  std::vector<Config> out;
  for (Config config : configs) {
    if (cluster_size(config) > 1 || config.two_widths || is_for_few_rows(config)) continue;
    config.pointer_arrays = true;
    if (accumulators(config) > kMostAccumulators) {
      config.math_columns = kFewestMathColumns;
    }
    out.push_back(config);
  }
  return out;
}

KernelSource describe_source(const plan::Plan& plan, const Config& config,
                             const targets::TargetInfo& target) {
  const FusedGemm step = as_compiled(only_step(plan), {});
  DescribeText body(plan.graph);
  const ProductViews views = *product_views(plan, step);
  const EpilogueLayout layout(step.epilogue);
  add_operands(body, step, views);
  add_loads(body, step.epilogue, layout, views);
  add_stores(body, layout, views, config);
  add_stores_by_hand(body, plan);
  body.line(fmt::format("out.finish({}, {}, {}, {});", body.size(step.gemm.m),
                        body.size(step.gemm.n), body.size(step.gemm.k),
                        operand_format(step.gemm.a.dtype).step_k()));
  KernelSource out;
  out.entry = "epifuse_describe_problems";
  out.arch = target.name;
  out.text = fmt::format(
      "{}#include \"kernels/common/pointer_arrays.cuh\"\n\nnamespace epifuse::generated {{\n\n"
      "struct Problem {{\n"
      "  static constexpr int kNumSizes = {};\n"
      "  static constexpr int kNumTensors = {};\n\n"
      "  static __device__ void describe(const long long* sizes, const pointer_arrays::Tensor* "
      "tensors,\n"
      "                                  pointer_arrays::Describer& out) {{\n{}  }}\n}};\n\n"
      "}}  // namespace epifuse::generated\n\n"
      "extern \"C\" __global__ void __launch_bounds__(epifuse::abi::kDescribeThreads)\n"
      "    {}(const __grid_constant__ epifuse::abi::DescribeParams p) {{\n"
      "  epifuse::pointer_arrays::describe<epifuse::generated::Problem>(p);\n}}\n",
      comment(fmt::format("{}: where the tensors of each problem are, and tensor maps of them",
                          plan.graph.name)),
      problem_symbols(plan.graph).size(), problem_tensors(plan.graph).size(), body.text(),
      out.entry);
  return out;
}

KernelSource by_hand_source(const plan::Plan& plan, const targets::TargetInfo& target) {
  const FusedGemm step = as_compiled(only_step(plan), {.unpaired = true});
  KernelSource out;
  out.entry = "epifuse_pointer_arrays_by_hand";
  out.arch = target.name;
  out.text = fmt::format(
      "{}#include \"kernels/common/pointer_arrays_by_hand.cuh\"\n\n#include "
      "\"kernels/common/math.cuh\"\n\n"
      "namespace epifuse::generated {{\n\n"
      "struct Config {{\n"
      "  using A = {};\n  using B = {};\n"
      "  static constexpr int kProducts = {};\n}};\n\n{}\n"
      "}}  // namespace epifuse::generated\n\n"
      "extern \"C\" __global__ void __launch_bounds__(epifuse::abi::kByHandThreads)\n"
      "    {}(const __grid_constant__ epifuse::abi::ByHandParams p) {{\n"
      "  using namespace epifuse;\n"
      "  by_hand::problems<generated::Config, generated::Epilogue>(p);\n}}\n",
      comment(fmt::format("{}: problems that tensor maps cannot address\n{}", plan.graph.name,
                          plan::print(step.epilogue))),
      element_cuda(step.gemm.a.dtype), element_cuda(step.gemm.b.dtype),
      step.epilogue.num_accumulators, epilogue_cuda(step.epilogue, plan.numerics), out.entry);
  return out;
}

std::size_t problem_bytes(std::int64_t count) {
  return bytes_of_problems(count) +
         rounded_up(static_cast<std::size_t>(count) * sizeof(abi::ProblemTiles));
}

PointerArrayLaunches pointer_array_launches(const plan::Plan& plan, const Config& config,
                                            const Launch& usual, const BoundPointerArrays& problems,
                                            const targets::DeviceLimits& limits, char* workspace) {
  auto* described = reinterpret_cast<abi::Problem*>(workspace);
  auto* tiles = reinterpret_cast<abi::ProblemTiles*>(workspace + bytes_of_problems(problems.count));
  abi::GemmParams block{};
  EPIFUSE_CHECK(usual.params.size() == sizeof block, "the whole block");
  std::memcpy(&block, usual.params.data(), sizeof block);
  EpilogueLayout(only_step(plan).epilogue).set_parameters(problems.scalars, block.parameters);
  block.lets_next_start = false;

  PointerArrayLaunches out;
  abi::DescribeParams describe = describe_params(plan, config, problems);
  describe.usual = block;
  describe.problems = described;
  describe.tiles = tiles;
  set_params(out.describe, &describe, sizeof describe);
  out.describe.maps = usual.maps;  // the block comes first
  out.describe.grid = static_cast<unsigned>(problems.count);
  out.describe.block = abi::kDescribeThreads;

  const int count = static_cast<int>(problems.count);
  out.product = usual;
  out.product.maps.clear();
  const abi::PointerArrayGemmParams product{block, described, tiles, count};
  set_params(out.product, &product, sizeof product);
  out.product.grid = static_cast<unsigned>(limits.num_sms);

  abi::ByHandParams by_hand{described, tiles, count, {}};
  std::copy(std::begin(block.parameters), std::end(block.parameters), by_hand.parameters);
  set_params(out.by_hand, &by_hand, sizeof by_hand);
  out.by_hand.grid = static_cast<unsigned>(limits.num_sms * kBlocksPerSm);
  out.by_hand.block = abi::kByHandThreads;
  out.by_hand.overlaps_previous = true;
  return out;
}

}  // namespace epifuse::codegen::sm90
