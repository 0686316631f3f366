// Names an epilogue by its ops in order: "bias+silu+residual".
#include <fmt/core.h>

#include "ir/op.h"
#include "plan/epilogue.h"

namespace epifuse::plan {
namespace {

using ir::Op;

class Labeller {
 public:
  explicit Labeller(const Epilogue& epilogue) : epilogue_(epilogue) {}
  std::string label() const;

 private:
  const Load* load_of(Slot slot) const;
  bool is_number(Slot slot) const;
  bool reads(const Compute& compute, Access access) const;
  std::string_view word(const Compute& compute) const;

  const Epilogue& epilogue_;
};

// The compute behind a slot, null for others.
const Compute* compute_of(const Epilogue& epilogue, Slot slot) {
  if (slot < epilogue.first_compute()) return nullptr;
  return &epilogue.computes[static_cast<std::size_t>(slot - epilogue.first_compute())];
}

// Casts do not change what an operand is.
Slot without_casts(const Epilogue& epilogue, Slot slot) {
  const Compute* compute = compute_of(epilogue, slot);
  for (; compute && compute->op == Op::cast; compute = compute_of(epilogue, slot)) {
    slot = compute->args[0];
  }
  return slot;
}

const Load* Labeller::load_of(Slot slot) const {
  slot = without_casts(epilogue_, slot);
  if (slot < epilogue_.first_load() || slot >= epilogue_.first_compute()) return nullptr;
  return &epilogue_.loads[static_cast<std::size_t>(slot - epilogue_.first_load())];
}

bool Labeller::is_number(Slot slot) const {
  const Compute* compute = compute_of(epilogue_, without_casts(epilogue_, slot));
  if (compute) return compute->op == Op::constant;
  const Load* load = load_of(slot);
  return load && (load->access == Access::parameter || load->access == Access::scalar);
}

bool Labeller::reads(const Compute& compute, Access access) const {
  for (Slot slot : {compute.args[0], compute.args[1]}) {
    const Load* load = load_of(slot);
    if (load && load->access == access) return true;
  }
  return false;
}

std::string_view Labeller::word(const Compute& compute) const {
  if (compute.op == Op::add) {
    if (reads(compute, Access::row)) return "bias";
    if (reads(compute, Access::col)) return "col_bias";
    if (reads(compute, Access::tile)) return "residual";
  }
  if (compute.op == Op::mul) {
    if (reads(compute, Access::row)) return "row_scale";
    if (reads(compute, Access::col)) return "col_scale";
    if (is_number(compute.args[0]) || is_number(compute.args[1])) return "scale";
  }
  return ir::name(compute.op);
}

std::string Labeller::label() const {
  std::string text;
  const auto add = [&](std::string_view word) {
    text += fmt::format("{}{}", text.empty() ? "" : "+", word);
  };
  for (const Compute& compute : epilogue_.computes) {
    if (compute.op != Op::cast && compute.op != Op::constant) add(word(compute));
  }
  bool first = true;
  for (const Store& store : epilogue_.stores) {
    if (store.kind != StoreKind::tile) {
      add(name(store.kind));
    } else if (!first) {
      add("output");
    }
    first = false;
  }
  return text.empty() ? "identity" : text;
}

}  // namespace

std::string label(const Epilogue& epilogue) { return Labeller(epilogue).label(); }

}  // namespace epifuse::plan
