// The plan: the ordered steps a graph became, and what was left out of fusion and why.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "epifuse/program.h"
#include "ir/graph.h"
#include "plan/epilogue.h"
#include "targets/step_limits.h"

namespace epifuse::plan {

// "No", with a reason: a stable code for programs and one plain sentence for people.
struct WhyNot {
  std::string code;      // e.g. "b_not_k_major"
  std::string sentence;  // e.g. "w is stored N-major; this kernel reads K-major operands."
  bool operator==(const WhyNot&) const = default;
};

enum class Major : std::uint8_t { k, mn, unknown };  // which dim of an operand is contiguous

struct Operand {
  ir::ValueId value;  // a [.., rows, cols] value of Plan::graph, before `transposed` is applied
  bool transposed = false;
  DType dtype = DType::bf16;
  Major major = Major::unknown;
  bool batched = false;       // varies along a batch dim
  ir::ValueId lookup = -1;    // of a grouped product's A: the take_rows whose rows it reads
  bool k_major_copy = false;  // a copy along K is read, of what runs along M or N; `major` is its
  bool operator==(const Operand&) const = default;
};

// Of an operand: a scale for each 128 elements along K, [.., rows, blocks of K].
struct OperandScales {
  ir::ValueId value = -1;   // none
  bool are_shared = false;  // by 128 rows of the operand (columns of the result)
  bool operator==(const OperandScales&) const = default;
};

// How the two products of a gated one lie: as halves of the columns of one matmul, as every other
// column of it, or as two matmuls of the same A.
enum class Gating : std::uint8_t { none, halves, interleaved, separate };
std::string_view name(Gating gating);

// D[batch.., m, n] = A[batch.., m, k] * B[batch.., k, n], and where it is gated a second such
// product of the same sizes. A grouped product has one B for each group: rows of a [m, k] are of
// groups that end where `groups` says, or of a batch [g, m, k] only so many rows are computed. Of a
// product that is grouped along K, batch is [groups] and neither operand varies along it: each sums
// over a part of K of its own.
struct GemmDesc {
  ir::ValueId matmul;  // the node in Plan::graph
  Operand a, b;        // b: all columns of the matmul, of both products where it gives both
  ir::Shape batch;     // empty: one 2-D product
  Dim m, n, k;
  DType result = DType::bf16;  // dtype of the matmul's value in the graph
  bool promoted = false;       // as ir::Node::promoted, and where blocks of K have scales
  // True when leading dims of `a` were folded into m (b and the epilogue do not vary along them):
  // `batch` is empty and m is their product with the rows.
  bool flattened = false;
  Gating gating = Gating::none;
  ir::ValueId first = -1, second = -1;  // where gated, what the two give: slices, or matmuls
  Operand second_b{-1};                 // where they are separate
  ir::ValueId groups = -1;              // of a grouped product: the ends or sizes of its groups
  Dim num_groups;
  ir::ValueId k_groups = -1;  // of a product that is grouped along K: the ends of its groups
  OperandScales a_scales, b_scales, second_b_scales;  // of blocks of K
  bool is_scaled() const { return a_scales.value >= 0; }
  // Whether kernels widen b's elements of 8 bits to those of a, of 16.
  bool widens_b() const { return is_narrow(b.dtype) && !is_narrow(a.dtype); }
  bool has_narrow() const { return is_narrow(a.dtype) || is_narrow(b.dtype); }
  bool is_grouped() const { return groups >= 0; }
  bool is_padded() const { return is_grouped() && !batch.empty(); }
  bool is_k_grouped() const { return k_groups >= 0; }
  bool has_groups() const { return is_grouped() || is_k_grouped(); }  // no vendor takes it
  ir::Halves halves() const;  // how two products of one matmul share out its columns
  std::vector<ir::ValueId> operands() const;  // a, b, and where they are separate the second b
  std::vector<ir::ValueId> scales() const;    // of the same, where they have them
  std::vector<ir::ValueId> reads() const;     // operands and scales
  bool operator==(const GemmDesc&) const = default;
};

// A matrix product and the work on its result: one kernel where a family takes it.
struct FusedGemm {
  GemmDesc gemm;
  Epilogue epilogue;
  bool operator==(const FusedGemm&) const = default;
};

// Elementwise work over `shape`, and the reductions that end it: one kernel.
struct Tail {
  ir::Shape shape;
  Epilogue epilogue;
  bool operator==(const Tail&) const = default;
};

using Step = std::variant<FusedGemm, Tail>;

struct LeftOut {
  ir::ValueId value;
  WhyNot why;
  bool operator==(const LeftOut&) const = default;
};

struct Plan {
  ir::Graph graph;  // after the passes
  Numerics numerics = Numerics::fast;
  bool allow_tf32 = false;  // float32 operands of products may lose all but 10 mantissa bits
  std::vector<Step> steps;
  std::vector<LeftOut> left_out;
  targets::StepLimits limits = targets::kBlockLimits;  // that it was made by

  const Epilogue& epilogue(std::size_t step) const;
  // Values that steps write and that are no outputs: the workspace, in order of first write.
  std::vector<ir::ValueId> temporaries() const;
  bool operator==(const Plan&) const = default;
};

// Fuses: grows a region from each matmul through its elementwise users; the rest becomes tails.
// With options.fuse false every op is a step of its own. Without limits those of GPUs count.
Plan make_plan(const ir::Graph& graph, const CompileOptions& options,
               const targets::StepLimits& limits = targets::kBlockLimits);

// The shape that a product's epilogue works on: [batch.., m, n], batch dims not folded.
ir::Shape space(const ir::Graph& graph, const GemmDesc& gemm);

// Bare products that write their results, one for each matmul, and the tail that does the epilogue
// on them: what a target runs when no family takes the fused step.
struct Split {
  std::vector<FusedGemm> gemms;
  std::optional<Tail> tail;
};
Split split(const Plan& plan, const FusedGemm& step);

// Whether all a step does is to store the product; rounding to what is stored is part of the store.
bool is_bare(const FusedGemm& step);

// Kernels of one run where each step is one, but for a product that reduces: what its tiles give is
// combined by a second kernel.
int num_kernels(const Plan& plan);

// A plan of one tail over [batch.., P, L], which combines P partial results of each reduction of
// `step`. Of the i-th, value 2 i is what is loaded, f32, and value 2 i + 1 is [batch.., 1, L].
Plan finalize(const FusedGemm& step);

// Values of the graph that are certainly rounded to their dtype by this plan, beside explicit casts
// and outputs: everything under `exact`, else the temporaries that later steps read.
std::vector<bool> rounded_values(const Plan& plan);

// The values that a step computes, in graph order: those between what it reads and what it stores.
std::vector<ir::ValueId> computed_values(const Plan& plan, const Step& step);

std::string print(const Plan& plan);  // for goldens
void verify(const Plan& plan);        // throws InternalError

}  // namespace epifuse::plan
