// Runs `.epi` text on the CPU backend, for its tests.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/backend.h"
#include "backends/reference/evaluate.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "plan/plan.h"
#include "targets/step_limits.h"
#include "tests/common/host_tensor.h"

namespace epifuse::cpu {

using testing::HostTensor;

class CpuProgram {
 public:
  explicit CpuProgram(const std::string& text, const CompileOptions& options = {})
      : graph_(ir::parse(text)), options_(options) {
    const ir::Graph simplified = passes::run_all(graph_, options.numerics);
    executable_ = prepare(plan::make_plan(simplified, options, targets::kHostLimits), {}, options);
  }

  const plan::Plan& plan() const { return executable_->plan(); }
  const backends::Executable& executable() const { return *executable_; }

  // A plan of one's own, for what make_plan does not make yet.
  CpuProgram(const std::string& text, const plan::Plan& plan)
      : graph_(ir::parse(text)), executable_(prepare(plan, {}, {})) {}

  void run(const std::vector<Binding>& tensors) const {
    const codegen::Bound bound = backends::bind(plan(), tensors, DeviceKind::cpu);
    const backends::CallForm form = backends::form_of(plan(), bound);
    std::vector<std::uintptr_t> bases;
    std::vector<double> scalars;
    for (const ir::ValueId id : form.tensors) {
      bases.push_back(backends::base_of(bound.tensors[static_cast<std::size_t>(id)].data));
    }
    for (const ir::ValueId id : form.scalars) {
      scalars.push_back(bound.scalars[static_cast<std::size_t>(id)]);
    }
    executable_->prepare(form)->run({bases, scalars}, nullptr);
  }

  // Runs and compares every output with the float64 reference.
  void run_and_verify(const std::vector<Binding>& tensors) const {
    run(tensors);
    reference::Options options;
    options.numerics = options_.numerics;
    // Outputs that a later step reads are rounded for it, as temporaries are; not so for a
    // reduction in the step that stores them.
    std::set<std::string> reduced;
    for (std::size_t i = 0; i < plan().steps.size(); ++i) {
      const plan::Epilogue& epilogue = plan().epilogue(i);
      for (const plan::Load& load : epilogue.loads) {
        (reduced.contains(load.name) ? options.maybe_rounded : options.rounded)
            .push_back(load.name);
      }
      if (!epilogue.reduces()) continue;
      for (const plan::Store& store : epilogue.stores) reduced.insert(store.name);
    }
    const std::vector<bool> rounded = plan::rounded_values(plan());
    for (std::size_t id = 0; id < rounded.size(); ++id) {
      if (rounded[id]) options.rounded.push_back(plan().graph.nodes[id].name);
    }
    for (const reference::Verdict& verdict : reference::verify(graph_, tensors, options)) {
      EXPECT_EQ(verdict.failed, 0) << verdict.output << ": " << verdict.first_failure;
    }
  }

 private:
  ir::Graph graph_;
  CompileOptions options_;
  std::unique_ptr<backends::Executable> executable_;
};

inline HostTensor random_tensor(DType dtype, std::vector<std::int64_t> shape, std::uint64_t seed,
                                std::vector<std::int64_t> strides = {}) {
  std::mt19937_64 random(seed);
  HostTensor tensor(dtype, std::move(shape), std::move(strides));
  tensor.fill_normal(random);
  return tensor;
}

}  // namespace epifuse::cpu
