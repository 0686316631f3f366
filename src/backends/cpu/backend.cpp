// The CPU backend: runs every plan, step by step.
#include "backends/cpu/backend.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <mutex>
#include <numeric>

#include "backends/cpu/epilogue_run.h"
#include "backends/cpu/gemm_step.h"
#include "backends/cpu/strips.h"
#include "backends/cpu/tail_step.h"
#include "backends/pointer_arrays.h"
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

  std::shared_ptr<const backends::PreparedCall> prepare(backends::CallForm form) const override {
    return std::make_shared<CpuCall>(*this, std::move(form));
  }

  void run(const codegen::Bound& bound, Stream) const override {
    if (temporaries_.empty()) return run_steps(bound);
    codegen::Bound complete = bound;
    std::vector<BufferPool::Buffer> memory;
    for (const ir::ValueId value : temporaries_) {
      const ir::TensorType& type = plan_.graph[value].type;
      codegen::BoundTensor& tensor = complete.tensors[static_cast<std::size_t>(value)];
      memory.push_back(pool_.borrow(lay_out(type, complete.sizes, tensor)));
      tensor.data = memory.back().data();
    }
    backends::resolve_views(plan_, complete);
    run_steps(complete);
  }

  void run_pointer_arrays(const codegen::BoundPointerArrays& problems,
                          Stream stream) const override {
    backends::run_one_by_one(*this, problems, DeviceKind::cpu, stream);
  }
  std::string explain_pointer_arrays() const override {
    return "One problem after another, each on all cores.";
  }

 private:
  // Bound once, on placeholders; a call takes a copy that no other call uses, and puts its
  // addresses there.
  class CpuCall : public backends::PreparedCall {
   public:
    CpuCall(const CpuExecutable& executable, backends::CallForm form)
        : executable_(executable), form_(std::move(form)) {
      for (const ir::ValueId value : executable.temporaries_) add_temporary(value);
      backends::resolve_views(executable.plan_, form_.bound);
    }

    void run(const codegen::CallValues& values, Stream) const override {
      if (temporary_bytes_.empty()) return run_on(values);
      std::vector<std::uintptr_t> bases(values.bases.begin(), values.bases.end());
      std::vector<BufferPool::Buffer> memory;
      for (const std::size_t bytes : temporary_bytes_) {
        memory.push_back(executable_.pool_.borrow(bytes));
        bases.push_back(reinterpret_cast<std::uintptr_t>(memory.back().data()));
      }
      run_on({bases, values.scalars});
    }

   private:
    void run_on(const codegen::CallValues& values) const {
      const BoundLoan loan(*this);
      backends::set_values(form_.bound, form_, values, *loan.bound);
      executable_.run_steps(*loan.bound);
    }

    struct BoundLoan {
      explicit BoundLoan(const CpuCall& of) : call(of), bound(of.take()) {}
      ~BoundLoan() { call.give_back(std::move(bound)); }
      BoundLoan(const BoundLoan&) = delete;
      BoundLoan& operator=(const BoundLoan&) = delete;
      const CpuCall& call;
      std::unique_ptr<codegen::Bound> bound;
    };

    void add_temporary(ir::ValueId value) {
      const ir::TensorType& type = executable_.plan_.graph[value].type;
      codegen::BoundTensor& tensor = form_.bound.tensors[static_cast<std::size_t>(value)];
      tensor.data = codegen::placeholder(form_.tensors.size() + temporary_bytes_.size());
      temporary_bytes_.push_back(lay_out(type, form_.bound.sizes, tensor));
    }

    std::unique_ptr<codegen::Bound> take() const {
      {
        const std::scoped_lock lock(mutex_);
        if (!idle_.empty()) {
          auto bound = std::move(idle_.back());
          idle_.pop_back();
          return bound;
        }
      }
      return std::make_unique<codegen::Bound>(form_.bound);
    }
    void give_back(std::unique_ptr<codegen::Bound> bound) const {
      const std::scoped_lock lock(mutex_);
      idle_.push_back(std::move(bound));  // at most one for each thread that runs at once
    }

    const CpuExecutable& executable_;
    backends::CallForm form_;  // with temporaries, numbered behind its tensors
    std::vector<std::size_t> temporary_bytes_;
    mutable std::mutex mutex_;
    mutable std::vector<std::unique_ptr<codegen::Bound>> idle_;
  };

  // Dense, from the start of its memory; the bytes it takes.
  static std::size_t lay_out(const ir::TensorType& type, const Sizes& sizes,
                             codegen::BoundTensor& tensor) {
    tensor.layout.offset = 0;
    tensor.layout.shape = ir::eval(type.shape, sizes);
    tensor.layout.strides = TensorView::dense_strides(tensor.layout.shape);
    const std::int64_t num_elements =
        std::accumulate(tensor.layout.shape.begin(), tensor.layout.shape.end(), std::int64_t{1},
                        std::multiplies<>());
    return static_cast<std::size_t>(num_elements) * size_bytes(type.dtype);
  }

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
