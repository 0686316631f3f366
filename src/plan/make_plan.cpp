// From a graph to a plan: prepare, decide the steps, write them out.
#include "plan/build.h"
#include "plan/plan.h"
#include "plan/prepare.h"
#include "plan/steps.h"

namespace epifuse::plan {

Plan make_plan(const ir::Graph& graph, const CompileOptions& options,
               const targets::StepLimits& limits) {
  Plan plan{prepare(graph), options.numerics, options.allow_tf32, {}, {}, limits};
  const Facts facts(plan.graph, options.fuse, limits);
  Steps drafts = draft_steps(facts, options.fuse);
  for (const StepDraft& draft : drafts.steps) {
    Epilogue epilogue = build_epilogue(facts, draft, options.numerics);
    if (draft.matmul >= 0) {
      plan.steps.emplace_back(build_gemm(facts, draft, std::move(epilogue)));
    } else {
      plan.steps.emplace_back(Tail{draft.space, std::move(epilogue)});
    }
  }
  plan.left_out = std::move(drafts.left_out);
  return plan;
}

}  // namespace epifuse::plan
