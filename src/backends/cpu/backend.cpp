// The CPU backend: runs every plan, step by step.
#include "backends/cpu/backend.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>

#include "backends/cpu/epilogue_run.h"
#include "backends/cpu/gemm_step.h"
#include "backends/cpu/strips.h"
#include "backends/cpu/tail_step.h"
#include "backends/problems.h"
#include "ir/views.h"

namespace epifuse::cpu {
namespace {

class CpuExecutable : public backends::Executable {
 public:
  explicit CpuExecutable(const plan::Plan& plan) : plan_(plan), temporaries_(plan_.temporaries()) {
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      programs_.push_back(compile(plan_.graph, plan_.epilogue(i)));
    }
  }

  const plan::Plan& plan() const override { return plan_; }
  backends::RunPlan plan_for(const codegen::Bound&) const override { return {plan_}; }

  std::vector<backends::StepReport> report() const override {
    std::vector<backends::StepReport> reports;
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const auto* gemm = std::get_if<plan::FusedGemm>(&plan_.steps[i]);
      reports.push_back({gemm != nullptr ? describe_gemm(*gemm, matmuls_) : describe_tail(), {}});
    }
    return reports;
  }

  std::vector<std::pair<std::string, std::string>> sources() const override { return {}; }

  void run(const std::shared_ptr<const codegen::Bound>& bound, Stream) const override {
    if (temporaries_.empty()) return run_steps(*bound);
    codegen::Bound complete = *bound;
    std::vector<BufferPool::Buffer> memory;
    for (const ir::ValueId value : temporaries_) {
      const ir::TensorType& type = plan_.graph[value].type;
      codegen::BoundTensor& tensor = complete[value];
      tensor.layout.offset = 0;
      tensor.layout.shape = ir::eval(type.shape, complete.sizes);
      tensor.layout.strides = TensorView::dense_strides(tensor.layout.shape);
      const std::int64_t num_elements =
          std::accumulate(tensor.layout.shape.begin(), tensor.layout.shape.end(), std::int64_t{1},
                          std::multiplies<>());
      memory.push_back(
          pool_.borrow(static_cast<std::size_t>(num_elements) * size_bytes(type.dtype)));
      tensor.data = memory.back().data();
    }
    backends::resolve_views(plan_, complete);
    run_steps(complete);
  }

  void run_problems(const codegen::ProblemArrays& problems, Stream stream) const override {
    backends::run_one_by_one(*this, problems, DeviceKind::cpu, stream);
  }
  std::string explain_problems() const override {
    return "One problem after another, each on all cores.";
  }

 private:
  void run_steps(const codegen::Bound& bound) const {
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      if (const auto* gemm = std::get_if<plan::FusedGemm>(&plan_.steps[i])) {
        run_gemm(plan_, *gemm, programs_[i], bound, matmuls_, pool_);
      } else {
        run_tail(plan_.graph, std::get<plan::Tail>(plan_.steps[i]), programs_[i], bound, pool_);
      }
    }
  }

  static std::string describe_tail() {
    return fmt::format("one {} pass over memory, {} floats at a time", best_strips().name,
                       kStripFloats);
  }

  const plan::Plan plan_;
  const std::vector<ir::ValueId> temporaries_;
  std::vector<EpilogueProgram> programs_;  // one per step
  mutable MatmulCache matmuls_;            // thread-safe, as is the pool
  mutable BufferPool pool_;
};

}  // namespace

std::unique_ptr<backends::Executable> prepare(const plan::Plan& plan, const targets::TargetInfo&,
                                              const CompileOptions&) {
  return std::make_unique<CpuExecutable>(plan);
}

}  // namespace epifuse::cpu
