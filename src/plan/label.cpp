// Names an epilogue by its ops in order: "bias+silu+residual".
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <vector>

#include "ir/op.h"
#include "plan/epilogue.h"

namespace epifuse::plan {
namespace {

using ir::Op;

// Along which dims a slot varies: neither is a number, both a full matrix.
struct Kind {
  bool m = false, n = false;
  bool is_number() const { return !m && !n; }
  bool is_row() const { return !m && n; }
  bool is_col() const { return m && !n; }
  bool is_tile() const { return m && n; }
};

// act(gate) * up, by the ops that come before the product of both, sorted.
struct GateName {
  std::string_view name;
  std::size_t num_ops;
  std::array<std::string_view, 6> ops;
};
constexpr GateName kGateNames[] = {
    {"swiglu", 1, {"silu"}},
    {"geglu_erf", 1, {"gelu_erf"}},
    {"geglu_tanh", 1, {"gelu_tanh"}},
    {"reglu", 1, {"relu"}},
    {"glu", 1, {"sigmoid"}},
    {"swiglu_oai", 6, {"add", "clamp", "min", "mul", "scale", "sigmoid"}},
};

const GateName* find_gate(std::vector<std::string_view> words) {
  std::sort(words.begin(), words.end());
  const auto* found =
      std::find_if(std::begin(kGateNames), std::end(kGateNames), [&](const auto& row) {
        return std::equal(words.begin(), words.end(), row.ops.begin(),
                          row.ops.begin() + row.num_ops);
      });
  return found == std::end(kGateNames) ? nullptr : found;
}

// Both halves of each row, turned by the angle of two tables.
bool is_rotary(std::vector<std::string_view> words) {
  std::erase(words, "bias");
  std::sort(words.begin(), words.end());
  using Words = std::vector<std::string_view>;
  return words == Words{"add", "add", "mul", "mul", "mul", "mul", "neg"} ||
         words == Words{"add", "mul", "mul", "mul", "mul", "sub"};
}

class Labeller {
 public:
  explicit Labeller(const Epilogue& epilogue);
  std::string label() const;

 private:
  Kind kind(const Compute& compute) const;
  bool is_load(Slot slot) const;
  bool has(const Compute& compute, bool (Kind::*is)() const) const;
  bool reads_tile(const Compute& compute) const;
  bool is_named(std::size_t i) const;
  std::string_view word(const Compute& compute) const;
  std::vector<std::string_view> words() const;
  std::vector<std::string_view> words_of_gate(std::size_t meeting) const;
  bool is_after_gate(std::size_t i) const;

  const Epilogue& epilogue_;
  std::vector<Kind> kinds_;     // by slot
  std::vector<unsigned> sums_;  // by slot: bit i, computed from the i-th accumulator
};

Labeller::Labeller(const Epilogue& epilogue) : epilogue_(epilogue) {
  kinds_.assign(static_cast<std::size_t>(epilogue.num_accumulators), {true, true});
  for (const Load& load : epilogue.loads) {
    const bool tile = load.access == Access::tile;
    const bool varies_m = (tile || load.access == Access::col) && !load.by_group;
    kinds_.push_back({varies_m, tile || load.access == Access::row});
  }
  for (const Compute& compute : epilogue.computes) kinds_.push_back(kind(compute));
  for (Slot slot = 0; slot < epilogue.first_compute(); ++slot) {
    sums_.push_back(slot < epilogue.num_accumulators ? 1u << slot : 0u);
  }
  for (const Compute& compute : epilogue.computes) {
    unsigned sums = 0;
    for (Slot slot : compute.args) sums |= slot < 0 ? 0 : sums_[static_cast<std::size_t>(slot)];
    sums_.push_back(sums);
  }
}

Kind Labeller::kind(const Compute& compute) const {
  Kind result;
  for (Slot slot : compute.args) {
    if (slot < 0) continue;
    const Kind& operand = kinds_[static_cast<std::size_t>(slot)];
    result.m = result.m || operand.m;
    result.n = result.n || operand.n;
  }
  return result;
}

bool Labeller::has(const Compute& compute, bool (Kind::*is)() const) const {
  return std::any_of(compute.args.begin(), compute.args.end(), [&](Slot slot) {
    return slot >= 0 && (kinds_[static_cast<std::size_t>(slot)].*is)();
  });
}

// A load, maybe cast.
bool Labeller::is_load(Slot slot) const {
  while (slot >= epilogue_.first_compute()) {
    const auto i = static_cast<std::size_t>(slot - epilogue_.first_compute());
    if (epilogue_.computes[i].op != Op::cast) return false;
    slot = epilogue_.computes[i].args[0];
  }
  return slot >= epilogue_.first_load();
}

bool Labeller::reads_tile(const Compute& compute) const {
  return std::any_of(compute.args.begin(), compute.args.end(), [&](Slot slot) {
    return slot >= 0 && is_load(slot) && kinds_[static_cast<std::size_t>(slot)].is_tile();
  });
}

// Casts and numbers do not count, nor does what a fused product does to its small operands.
bool Labeller::is_named(std::size_t i) const {
  const Compute& compute = epilogue_.computes[i];
  if (compute.op == Op::cast || compute.op == Op::constant) return false;
  const auto slot = static_cast<std::size_t>(epilogue_.first_compute()) + i;
  return !epilogue_.has_accumulator() || kinds_[slot].is_tile();
}

// What an operand is added to makes it a bias or a residual: a full matrix, no number.
std::string_view Labeller::word(const Compute& compute) const {
  if (compute.op == Op::add && kind(compute).is_tile() && !has(compute, &Kind::is_number)) {
    if (has(compute, &Kind::is_row)) return "bias";
    if (has(compute, &Kind::is_col)) return "col_bias";
    if (reads_tile(compute)) return "residual";
  }
  if (compute.op == Op::mul) {
    if (has(compute, &Kind::is_number)) return "scale";
    if (has(compute, &Kind::is_row)) return "row_scale";
    if (has(compute, &Kind::is_col)) return "col_scale";
  }
  return ir::name(ir::without_narrow(compute.op));
}

// Whether a value is computed from what a gate gives.
bool Labeller::is_after_gate(std::size_t i) const {
  constexpr unsigned kBoth = 3;
  const Compute& compute = epilogue_.computes[i];
  return std::any_of(compute.args.begin(), compute.args.end(), [&](Slot slot) {
    return slot >= 0 && sums_[static_cast<std::size_t>(slot)] == kBoth;
  });
}

// A bias on either product, then the gate's name where it has one, else its ops.
std::vector<std::string_view> Labeller::words_of_gate(std::size_t meeting) const {
  std::vector<std::string_view> words, result;
  for (std::size_t i = 0; i < epilogue_.computes.size(); ++i) {
    if (!is_named(i) || is_after_gate(i) || i == meeting) continue;
    const std::string_view each = word(epilogue_.computes[i]);
    if (each == "bias") {
      result = {each};
    } else {
      words.push_back(each);
    }
  }
  const std::string_view last = word(epilogue_.computes[meeting]);
  if (const GateName* gate = last == "mul" ? find_gate(words) : nullptr) {
    result.push_back(gate->name);
    return result;
  }
  result.insert(result.end(), words.begin(), words.end());
  result.push_back(last);
  return result;
}

std::vector<std::string_view> Labeller::words() const {
  constexpr unsigned kBoth = 3;
  std::vector<std::string_view> result;
  std::size_t first = epilogue_.computes.size();  // of what is computed from both products
  for (std::size_t i = epilogue_.computes.size(); i-- > 0;) {
    const auto slot = static_cast<std::size_t>(epilogue_.first_compute()) + i;
    if (sums_[slot] == kBoth && !is_after_gate(i)) first = i;
  }
  const bool has_gate = first < epilogue_.computes.size();
  if (has_gate) result = words_of_gate(first);
  for (std::size_t i = 0; i < epilogue_.computes.size(); ++i) {
    if (!is_named(i) || (has_gate && !is_after_gate(i))) continue;
    result.push_back(word(epilogue_.computes[i]));
  }
  if (has_gate && is_rotary(result)) {
    const bool has_bias = std::find(result.begin(), result.end(), "bias") != result.end();
    result.erase(result.begin() + (has_bias ? 1 : 0), result.end());
    result.emplace_back("rotary");
  }
  return result;
}

std::string Labeller::label() const {
  std::string text;
  const auto add = [&](std::string_view word) {
    text += fmt::format("{}{}", text.empty() ? "" : "+", word);
  };
  for (std::string_view word : words()) add(word);
  bool first = true;
  for (const Store& store : epilogue_.stores) {
    if (is_second(store.part)) continue;
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

std::string identifier(const Epilogue& epilogue) {
  std::string name = label(epilogue);
  std::replace(name.begin(), name.end(), '+', '_');
  return name;
}

}  // namespace epifuse::plan
