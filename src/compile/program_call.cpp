#include "compile/program_call.h"

namespace epifuse {

CallNames::CallNames(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes) {
    if (node.op == ir::Op::input) tensors.push_back(node.name);
    if (node.op == ir::Op::scalar) scalars.push_back(node.name);
  }
  for (const ir::Output& output : graph.outputs) tensors.push_back(output.name);
}

ProgramCall::ProgramCall(const backends::Executable& executable, const codegen::Bound& bound)
    : plan_(executable.plan()),
      form_(backends::form_of(plan_, bound)),
      overlaps_(plan_, form_),
      prepared_(executable.prepare(form_)) {}

void ProgramCall::run(const codegen::CallValues& values, Stream stream) const {
  overlaps_.run(plan_, form_, values);
  prepared_->run(values, stream);
}

}  // namespace epifuse
