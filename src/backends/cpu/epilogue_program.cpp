// Turns an epilogue into strip instructions: how often each runs, and which buffer it writes.
#include "backends/cpu/epilogue_program.h"

#include <algorithm>

#include "backends/cpu/strips.h"
#include "ir/views.h"

namespace epifuse::cpu {
namespace {

enum class Rate : std::uint8_t { once, per_columns, per_strip };

// The row of ops.def of an elementwise op.
int op_row(ir::Op op) {
  const int num_structural = static_cast<int>(ir::all_ops().size()) - kNumOps;
  return static_cast<int>(op) - num_structural;
}

class Compiler {
 public:
  Compiler(const ir::Graph& graph, const plan::Epilogue& epilogue)
      : graph_(graph),
        epilogue_(epilogue),
        rate_(static_cast<std::size_t>(epilogue.num_slots()), Rate::per_strip),
        buffer_(rate_.size(), kNoBuffer),
        last_use_(rate_.size(), -1) {}

  EpilogueProgram run() {
    find_last_uses();
    for (plan::Slot slot = 0; slot < epilogue_.num_accumulators; ++slot) {
      buffer_[static_cast<std::size_t>(slot)] = slot == 0 ? kAccumulator : kSecondAccumulator;
      emit_stores(slot);
    }
    for (std::size_t i = 0; i < epilogue_.loads.size(); ++i) emit_load(static_cast<int>(i));
    for (std::size_t i = 0; i < epilogue_.computes.size(); ++i) emit_compute(static_cast<int>(i));
    for (const plan::Store& store : epilogue_.stores) need(store.source);  // plain copies
    return std::move(program_);
  }

 private:
  // The compute that uses each slot last; loads are done in order of use, just before it.
  void find_last_uses() {
    for (std::size_t i = 0; i < epilogue_.computes.size(); ++i) {
      for (const plan::Slot arg : epilogue_.computes[i].args) {
        if (arg >= 0) last_use_[static_cast<std::size_t>(arg)] = static_cast<int>(i);
      }
    }
  }

  // By what the value is, not by how the plan indexes it: rows may run over several dims here.
  Rate rate_of(const plan::Load& load) const {
    if (load.access == plan::Access::parameter) return Rate::once;
    const std::vector<bool> varies = ir::varies(graph_, load.value);
    if (std::count(varies.begin(), varies.end(), true) == 0) return Rate::once;
    const bool by_row = std::count(varies.begin(), varies.end() - 1, true) > 0;
    return by_row ? Rate::per_strip : Rate::per_columns;
  }

  std::vector<Instruction>& list(Rate rate) {
    if (rate == Rate::once) return program_.once;
    return rate == Rate::per_columns ? program_.per_columns : program_.per_strip;
  }

  int new_buffer(Rate rate) {
    if (rate == Rate::per_strip && !free_.empty()) {
      const int buffer = free_.back();
      free_.pop_back();
      return buffer;
    }
    return program_.num_buffers++;
  }

  // Strip buffers whose last use is done may be written again, even by the same instruction.
  void release(plan::Slot slot, int compute) {
    const auto s = static_cast<std::size_t>(slot);
    if (rate_[s] != Rate::per_strip || buffer_[s] < 0 || last_use_[s] > compute) return;
    if (std::find(free_.begin(), free_.end(), buffer_[s]) != free_.end()) return;
    if (is_shared(slot, compute)) return;
    free_.push_back(buffer_[s]);
  }

  // A cast to f32 shares its operand's buffer: the buffer lives as long as any of them.
  bool is_shared(plan::Slot slot, int compute) const {
    for (std::size_t s = 0; s < buffer_.size(); ++s) {
      if (static_cast<plan::Slot>(s) != slot && last_use_[s] > compute &&
          buffer_[s] == buffer_[static_cast<std::size_t>(slot)]) {
        return true;
      }
    }
    return false;
  }

  void emit_load(int i) {
    const auto slot = static_cast<std::size_t>(epilogue_.first_load() + i);
    rate_[slot] = rate_of(epilogue_.loads[static_cast<std::size_t>(i)]);
    if (rate_[slot] == Rate::per_strip) return;  // later, where it is used first
    buffer_[slot] = new_buffer(rate_[slot]);
    list(rate_[slot]).push_back({Instruction::Kind::load, i, buffer_[slot]});
    emit_stores(static_cast<plan::Slot>(slot));
  }

  void need(plan::Slot slot) {
    const auto s = static_cast<std::size_t>(slot);
    if (buffer_[s] != kNoBuffer) return;
    buffer_[s] = new_buffer(Rate::per_strip);
    program_.per_strip.push_back(
        {Instruction::Kind::load, slot - epilogue_.first_load(), buffer_[s]});
    emit_stores(slot);
  }

  void emit_compute(int i) {
    const plan::Compute& compute = epilogue_.computes[static_cast<std::size_t>(i)];
    const plan::Slot slot = epilogue_.first_compute() + i;
    const auto s = static_cast<std::size_t>(slot);
    Instruction instruction{Instruction::Kind::op};
    Rate rate = Rate::once;
    for (std::size_t a = 0; a < compute.args.size(); ++a) {
      if (compute.args[a] < 0) continue;
      need(compute.args[a]);
      const auto arg = static_cast<std::size_t>(compute.args[a]);
      instruction.in[a] = buffer_[arg];
      rate = std::max(rate, rate_[arg]);
    }
    rate_[s] = rate;
    if (compute.op == ir::Op::cast && compute.dtype == DType::f32) {
      buffer_[s] = instruction.in[0];
      emit_stores(slot);
      return;
    }
    for (const plan::Slot arg : compute.args) {
      if (arg >= 0) release(arg, i);
    }
    buffer_[s] = instruction.out = new_buffer(rate);
    if (compute.op == ir::Op::constant) {
      instruction.kind = Instruction::Kind::fill;
      instruction.value = static_cast<float>(compute.value);
    } else if (compute.op == ir::Op::cast) {
      instruction.kind = Instruction::Kind::round;
      instruction.index = static_cast<int>(compute.dtype);
    } else if (compute.op == ir::Op::block_max) {
      instruction.kind = Instruction::Kind::block_max;
    } else {
      instruction.index = op_row(compute.op);
    }
    list(rate).push_back(instruction);
    emit_stores(slot);
    release(slot, i);
  }

  void emit_stores(plan::Slot slot) {
    for (std::size_t i = 0; i < epilogue_.stores.size(); ++i) {
      if (epilogue_.stores[i].source != slot) continue;
      Instruction store{Instruction::Kind::store, static_cast<int>(i)};
      store.in[0] = buffer_[static_cast<std::size_t>(slot)];
      program_.per_strip.push_back(store);
    }
  }

  const ir::Graph& graph_;
  const plan::Epilogue& epilogue_;
  std::vector<Rate> rate_;     // of each slot
  std::vector<int> buffer_;    // of each slot
  std::vector<int> last_use_;  // of each slot: index of a compute
  std::vector<int> free_;      // strip buffers that may be written again
  EpilogueProgram program_;
};

}  // namespace

bool reduces_columns(const plan::Epilogue& epilogue) {
  return std::any_of(epilogue.stores.begin(), epilogue.stores.end(),
                     [](const auto& store) { return plan::reduces_columns(store.kind); });
}

EpilogueProgram compile(const ir::Graph& graph, const plan::Epilogue& epilogue) {
  return Compiler(graph, epilogue).run();
}

}  // namespace epifuse::cpu
