#include "codegen/pointer_array_sources.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/epilogue_cuda.h"
#include "codegen/product_roles.h"
#include "codegen/source_text.h"

namespace epifuse::codegen {
namespace {

using plan::FusedGemm;

constexpr int kBlocksPerSm = 4;  // of kernels/common/pointer_arrays_by_hand.cuh
constexpr std::size_t kAlignment = 128;

void add_operands(DescribeText& out, const FusedGemm& step, const ProductViews& views,
                  const Description& description) {
  const plan::GemmDesc& gemm = step.gemm;
  const std::string a = out.view("a", views.a), b = out.view("b", views.b);
  description.operand(out, "a", gemm.a, a);
  const bool is_shared = has_adjacent_gates(gemm);
  description.operand(out, "b", gemm.b, is_shared ? out.view("all_b", views.all_b) : b);
  out.line(fmt::format("out.by_hand().a = pointer_arrays::matrix({});", a));
  out.line(fmt::format("out.by_hand().b = pointer_arrays::matrix({});", b));
  if (gemm.gating == plan::Gating::none) return;
  const std::string second = out.view("second_b", views.second_b);
  if (!is_shared) description.operand(out, "second_b", gemm.b, second);
  out.line(fmt::format("out.by_hand().second_b = pointer_arrays::matrix({});", second));
}

void add_loads(DescribeText& out, const plan::Epilogue& epilogue, const ProductViews& views,
               const Description& description) {
  const EpilogueLayout layout(epilogue);
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
        description.load(out, place, view);
        out.line(fmt::format("out.by_hand().tiles[{}] = pointer_arrays::matrix({});", place.index,
                             view));
        break;
      case List::parameters:
      case List::results:
      case List::partials: break;
    }
  }
}

// As the GEMM writes results, and as they are written by hand.
void add_stores(DescribeText& out, const plan::Plan& plan, const FusedGemm& step,
                const FusedGemm& by_hand, const Description& description) {
  const std::vector<ViewText> stores = product_views(plan, step)->stores;
  const EpilogueLayout layout(step.epilogue);
  for (std::size_t i = 0; i < stores.size(); ++i) {
    description.store(out, layout.stores()[i], out.view(fmt::format("store{}", i), stores[i]));
  }
  const std::vector<ViewText> apart = product_views(plan, by_hand)->stores;
  const EpilogueLayout layout_apart(by_hand.epilogue);
  for (std::size_t i = 0; i < apart.size(); ++i) {
    const auto same = std::ranges::find(stores, apart[i]);
    const std::string view = same != stores.end() ? fmt::format("store{}", same - stores.begin())
                                                  : out.view(fmt::format("by_hand{}", i), apart[i]);
    out.line(fmt::format("out.by_hand().stores[{}] = pointer_arrays::matrix({});",
                         layout_apart.stores()[i].index, view));
  }
}

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}
std::size_t bytes_of_problems(std::int64_t count) {
  return rounded_up(static_cast<std::size_t>(count) * sizeof(abi::Problem));
}

abi::DescribeParams describe_params(const plan::Plan& plan, const BoundPointerArrays& problems) {
  abi::DescribeParams out{};
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

const FusedGemm& only_step(const plan::Plan& plan) {
  return std::get<FusedGemm>(plan.steps.front());
}

DescribeText::DescribeText(const ir::Graph& graph) : views_(graph) {
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

std::string DescribeText::view(std::string name, const ViewText& view) {
  line(fmt::format("const pointer_arrays::View {} = tensors[{}].{}<{}>(", name, view.tensor,
                   view.is_paired ? "pairs" : "view", element_cuda(view.dtype)));
  line(fmt::format("    {}, {}, {}, {}, {});  // {}", view.offset, view.rows, view.cols,
                   view.row_stride, view.col_stride, view.name));
  return name;
}

KernelSource describe_source(const plan::Plan& plan, const FusedGemm& step,
                             const FusedGemm& by_hand, const Description& description,
                             const targets::TargetInfo& target) {
  DescribeText body(plan.graph);
  const ProductViews views = *product_views(plan, step);
  add_operands(body, step, views, description);
  add_loads(body, step.epilogue, views, description);
  add_stores(body, plan, step, by_hand, description);
  body.line(fmt::format("out.finish({}, {}, {}{});", body.size(step.gemm.m), body.size(step.gemm.n),
                        body.size(step.gemm.k), description.finish));
  KernelParts parts;
  parts.comment = fmt::format("{}: where the tensors of each problem are", plan.graph.name);
  parts.includes = fmt::format("#include \"{}\"\n", description.header);
  parts.generated = fmt::format(
      "struct Problem {{\n"
      "  using Describer = {};\n"
      "  static constexpr int kNumSizes = {};\n"
      "  static constexpr int kNumTensors = {};\n\n"
      "  static __device__ void describe(const long long* sizes, const pointer_arrays::Tensor* "
      "tensors,\n"
      "                                  Describer& out) {{\n{}  }}\n}};\n",
      description.describer, problem_symbols(plan.graph).size(), problem_tensors(plan.graph).size(),
      body.text());
  parts.bounds = "epifuse::abi::kDescribeThreads";
  parts.entry = "epifuse_describe_problems";
  parts.params = "abi::DescribeParams";
  parts.body = "  epifuse::pointer_arrays::describe<epifuse::generated::Problem>(p);\n";
  return kernel_source(target, parts);
}

KernelSource by_hand_source(const plan::Plan& plan, const FusedGemm& by_hand,
                            const targets::TargetInfo& target) {
  KernelParts parts;
  parts.comment = fmt::format("{}: problems that the GEMM cannot address\n{}", plan.graph.name,
                              plan::print(by_hand.epilogue));
  parts.includes =
      "#include \"kernels/common/pointer_arrays_by_hand.cuh\"\n\n"
      "#include \"kernels/common/math.cuh\"\n";
  parts.generated = fmt::format(
      "struct Config {{\n"
      "  using A = {};\n  using B = {};\n"
      "  static constexpr int kProducts = {};\n}};\n\n{}",
      element_cuda(by_hand.gemm.a.dtype), element_cuda(by_hand.gemm.b.dtype),
      by_hand.epilogue.num_accumulators, epilogue_cuda(by_hand.epilogue, plan.numerics));
  parts.bounds = "epifuse::abi::kByHandThreads";
  parts.entry = "epifuse_pointer_arrays_by_hand";
  parts.params = "abi::ByHandParams";
  parts.body =
      "  using namespace epifuse;\n"
      "  by_hand::problems<generated::Config, generated::Epilogue>(p);\n";
  return kernel_source(target, parts);
}

std::size_t problem_bytes(std::int64_t count) {
  return bytes_of_problems(count) +
         rounded_up(static_cast<std::size_t>(count) * sizeof(abi::ProblemTiles));
}

abi::ProblemList problem_list(std::int64_t count, char* workspace) {
  return {reinterpret_cast<const abi::Problem*>(workspace),
          reinterpret_cast<const abi::ProblemTiles*>(workspace + bytes_of_problems(count)),
          static_cast<int>(count)};
}

PointerArrayLaunches launches_of(const plan::Plan& plan, abi::GemmParams& block,
                                 const ProblemTiling& tiling, const Launch& usual,
                                 const BoundPointerArrays& problems,
                                 const targets::DeviceLimits& limits, char* workspace) {
  EpilogueLayout(only_step(plan).epilogue).set_parameters(problems.scalars, block.parameters);
  block.lets_next_start = false;
  const abi::ProblemList all = problem_list(problems.count, workspace);

  PointerArrayLaunches out;
  abi::DescribeParams describe = describe_params(plan, problems);
  describe.usual = block;
  describe.problems = const_cast<abi::Problem*>(all.problems);
  describe.tiles = const_cast<abi::ProblemTiles*>(all.tiles);
  describe.tile_rows = tiling.tile_rows;
  describe.tile_columns = tiling.tile_columns;
  set_params(out.describe, &describe, sizeof describe);
  out.describe.grid = static_cast<unsigned>(problems.count);
  out.describe.block = abi::kDescribeThreads;
  out.describe.maps = usual.maps;  // the block comes first

  out.product = usual;
  out.product.maps.clear();
  out.product.grid = static_cast<unsigned>(limits.num_sms * tiling.ctas);

  abi::ByHandParams by_hand{all.problems, all.tiles, all.count, {}};
  std::copy(std::begin(block.parameters), std::end(block.parameters), by_hand.parameters);
  set_params(out.by_hand, &by_hand, sizeof by_hand);
  out.by_hand.grid = static_cast<unsigned>(limits.num_sms * kBlocksPerSm);
  out.by_hand.block = abi::kByHandThreads;
  out.by_hand.overlaps_previous = true;
  return out;
}

}  // namespace epifuse::codegen
