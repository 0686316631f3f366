// One oneDNN matmul for a whole product.
#include "backends/cpu/bare_gemm.h"

#include <algorithm>
#include <array>
#include <optional>

#include "backends/cpu/threads.h"

namespace epifuse::cpu {
namespace {

// The operand as a oneDNN matrix over all dims of its grid and its columns; empty when strides do
// not suit oneDNN, which wants one of the last two to be 1.
std::optional<MatrixType> matrix_type(const Grid& grid, const Operand& operand) {
  MatrixType type{operand.dtype, grid.row_dims, operand.row_strides};
  type.shape.push_back(grid.n);
  type.strides.push_back(operand.column_stride);
  std::int64_t size = 1;
  for (std::size_t d = type.shape.size(); d-- > 0;) {
    const bool is_matrix_dim = d + 2 >= type.shape.size();
    if (type.strides[d] == 0 && !is_matrix_dim) type.shape[d] = 1;
    if (type.strides[d] == 0 && type.shape[d] > 1) return std::nullopt;
    if (type.shape[d] == 1) type.strides[d] = size;
    size = std::max(size, type.shape[d] * type.strides[d]);
  }
  const std::size_t rank = type.shape.size();
  if (type.strides[rank - 1] != 1 && type.strides[rank - 2] != 1) return std::nullopt;
  return type;
}

MatrixType transposed(MatrixType type) {
  const std::size_t rank = type.shape.size();
  std::swap(type.shape[rank - 1], type.shape[rank - 2]);
  std::swap(type.strides[rank - 1], type.strides[rank - 2]);
  return type;
}

// Whether each dim of the batches comes from an operand: oneDNN repeats one of them along it, but
// not both.
bool has_own_batches(const MatrixType& a, const MatrixType& b, const MatrixType& c) {
  for (std::size_t d = 0; d + 2 < c.shape.size(); ++d) {
    if (std::max(a.shape[d], b.shape[d]) != c.shape[d]) return false;
  }
  return true;
}

// The product of matrices, or of batches of them; empty when oneDNN cannot be told of it.
std::optional<MatmulType> matmul_type(const GemmProblem& problem, const Operand& result) {
  Operand a = problem.a, b = problem.b[0], c = result;
  Grid a_grid = problem.a_grid, b_grid = problem.b_grid, c_grid = make_grid(problem.shape);
  if (problem.merged) {
    const std::array<Operand*, 2> rows{&a, &c};
    coalesce_rows(c_grid, rows);
    if (c_grid.row_dims.size() > 1) return std::nullopt;
    if (c_grid.row_dims.empty()) {
      c_grid.row_dims = {1};
      for (Operand* operand : rows) operand->row_strides = {0};
    }
    a_grid.row_dims = c_grid.row_dims;
    b_grid.row_dims = {problem.n};
    b.row_strides = {b.row_strides.back()};
  }
  const std::optional<MatrixType> a_type = matrix_type(a_grid, a);
  const std::optional<MatrixType> b_type = matrix_type(b_grid, b);
  const std::optional<MatrixType> c_type = matrix_type(c_grid, c);
  if (!a_type || !b_type || !c_type || c_type->strides.back() != 1) return std::nullopt;
  if (!has_own_batches(*a_type, *b_type, *c_type)) return std::nullopt;
  return MatmulType{*a_type, transposed(*b_type), *c_type, threads_here()};
}

}  // namespace

bool run_bare_gemm(const GemmProblem& problem, const plan::FusedGemm& step,
                   const codegen::Bound& bound, MatmulCache& matmuls, BufferPool& pool) {
  if (problem.num_batches * problem.m * problem.n * problem.k == 0) return false;
  if (!matmuls.is_native(step.gemm.a.dtype)) return false;
  // The caller's matrices have no room for the zero that this k needs.
  if (padded_k(step.gemm.a.dtype, problem.k) != problem.k) return false;
  const plan::Store& store = step.epilogue.stores.front();
  const Operand result = make_operand(bound[store.value], store.dtype, problem.shape);
  const std::optional<MatmulType> type = matmul_type(problem, result);
  if (!type) return false;
  const bool is_one_matrix = problem.merged || problem.num_batches == 1;
  if (!is_one_matrix && !takes_batches(step.gemm.a.dtype, problem.n)) return false;
  const std::shared_ptr<const Matmul> matmul = matmuls.get(*type);
  if (!matmul) return false;
  const BufferPool::Buffer scratch = pool.borrow(matmul->scratch_bytes());
  const OnednnThreads threads(type->num_threads);
  MatmulCall(matmul).run(problem.a.data, problem.b[0].data, result.data, scratch.data());
  return true;
}

bool is_one_call(const plan::FusedGemm& step) {
  if (step.gemm.has_groups() || !plan::is_bare(step) || step.gemm.a.dtype != step.gemm.b.dtype)
    return false;
  const DType dtype = step.epilogue.stores.front().dtype;
  return dtype == DType::f32 || dtype == DType::bf16;
}

}  // namespace epifuse::cpu
