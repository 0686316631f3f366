// Runs a fused product: in one call, in tiles, or group by group.
#include "backends/cpu/gemm_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/bare_gemm.h"
#include "backends/cpu/scaled_operands.h"
#include "backends/cpu/threads.h"
#include "backends/cpu/tiled_gemm.h"
#include "backends/rows.h"
#include "epifuse/error.h"

namespace epifuse::cpu {
namespace {

DType compute_dtype(const plan::GemmDesc& gemm, MatmulCache& matmuls) {
  const bool is_native = gemm.a.dtype == gemm.b.dtype && matmuls.is_native(gemm.a.dtype);
  return is_native ? gemm.a.dtype : DType::f32;
}

void multiply_tiles(const GemmProblem& problem, const plan::GemmDesc& gemm, EpilogueRun& epilogue,
                    MatmulCache& matmuls, BufferPool& pool) {
  const DType compute = compute_dtype(gemm, matmuls);
  for (const bool in_blocks : {true, false}) {
    if (in_blocks && !matmuls.reads_blocks(compute)) continue;
    if (multiply(problem, compute, in_blocks, epilogue, matmuls, pool)) return;
  }
  throw UnavailableError("oneDNN cannot multiply float32 matrices here");
}

// Groups that have rows: those that several threads should share, and the others, the largest
// first.
struct Shares {
  std::vector<std::size_t> shared, whole;
};

Shares share_out(const std::vector<backends::GroupRows>& groups) {
  constexpr std::int64_t kRowsOfWeights = 8;  // reading a group's matrix takes as long
  const auto cost = [&groups](std::size_t g) {
    return groups[g].count == 0 ? 0 : groups[g].count + kRowsOfWeights;
  };
  std::int64_t total = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) total += cost(g);
  Shares shares;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (cost(g) == 0) continue;
    const bool is_large = cost(g) * 2 * threads_here() > total;
    (is_large ? shares.shared : shares.whole).push_back(g);
  }
  std::stable_sort(shares.whole.begin(), shares.whole.end(),
                   [&](std::size_t a, std::size_t b) { return cost(a) > cost(b); });
  return shares;
}

// A product for each group that has rows.
void run_groups(const plan::Plan& plan, const plan::FusedGemm& step, const EpilogueProgram& program,
                const codegen::Bound& bound, MatmulCache& matmuls, BufferPool& pool) {
  const ir::Node& node = plan.graph[step.gemm.matmul];
  const auto groups = backends::rows_of_groups(plan.graph, node, bound);
  const GroupedProblem problem = make_grouped_problem(plan, step.gemm, bound);
  EpilogueRun epilogue(plan.graph, step.epilogue, program, bound, problem.shape, Merge::none);
  const auto run_group = [&](std::size_t g) {
    const GemmProblem of_group =
        problem.group(static_cast<std::int64_t>(g), groups[g].first, groups[g].count);
    multiply_tiles(of_group, step.gemm, epilogue, matmuls, pool);
  };
  const Shares shares = share_out(groups);
  for (const std::size_t g : shares.shared) run_group(g);
  run_units(std::ssize(shares.whole), threads_here(), [&](std::int64_t unit, int) {
    run_group(shares.whole[static_cast<std::size_t>(unit)]);
  });
}

// A product for each group, over its part of K.
void run_groups_of_k(const plan::Plan& plan, const plan::FusedGemm& step,
                     const EpilogueProgram& program, const codegen::Bound& bound,
                     MatmulCache& matmuls, BufferPool& pool) {
  const auto groups = backends::rows_of_groups(plan.graph, plan.graph[step.gemm.matmul], bound);
  const GemmProblem problem = make_problem(plan, step.gemm, bound, true);
  EpilogueRun epilogue(plan.graph, step.epilogue, program, bound, problem.shape, Merge::none);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const GemmProblem of_group =
        part_of_k(problem, static_cast<std::int64_t>(g), groups[g].first, groups[g].count);
    multiply_tiles(of_group, step.gemm, epilogue, matmuls, pool);
  }
}

}  // namespace

void run_gemm(const plan::Plan& plan, const plan::FusedGemm& step, const EpilogueProgram& program,
              const codegen::Bound& bound, MatmulCache& matmuls, BufferPool& pool) {
  if (step.gemm.is_scaled()) {
    const ScaledOperands scaled(plan.graph, step, bound, pool);
    return run_gemm(plan, scaled.step, program, scaled.bound, matmuls, pool);
  }
  if (step.gemm.is_grouped()) return run_groups(plan, step, program, bound, matmuls, pool);
  if (step.gemm.is_k_grouped()) return run_groups_of_k(plan, step, program, bound, matmuls, pool);
  const GemmProblem problem = make_problem(plan, step.gemm, bound, reduces_columns(step.epilogue));
  if (is_one_call(step) && run_bare_gemm(problem, step, bound, matmuls, pool)) return;
  EpilogueRun epilogue(plan.graph, step.epilogue, program, bound, problem.shape,
                       problem.merged ? Merge::batches : Merge::none);
  multiply_tiles(problem, step.gemm, epilogue, matmuls, pool);
}

std::string describe_gemm(const plan::FusedGemm& step, MatmulCache& matmuls) {
  const DType compute = compute_dtype(step.gemm, matmuls);
  if (step.gemm.is_scaled()) {
    return "oneDNN f32 matmul of copies of the operands with their block scales";
  }
  if (is_one_call(step)) return fmt::format("oneDNN {} matmul of the whole product", name(compute));
  std::string text = fmt::format(
      "oneDNN {} matmul of panels of columns{}, epilogue on each tile "
      "while it is in cache ({})",
      name(compute), step.gemm.has_groups() ? ", group by group" : "", best_strips().name);
  if (compute != step.gemm.a.dtype)
    text += fmt::format("; {} operands are widened", name(step.gemm.a.dtype));
  return text;
}

}  // namespace epifuse::cpu
