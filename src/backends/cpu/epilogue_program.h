// An epilogue as a list of strip instructions over numbered buffers.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/epilogue.h"

namespace epifuse::cpu {

constexpr int kNoBuffer = -1;
// In place of a buffer: the strip of the first accumulator, of the second; never written.
constexpr int kAccumulator = -2, kSecondAccumulator = -3;

struct Instruction {
  enum class Kind : std::uint8_t { load, fill, round, op, block_max, store };
  Kind kind;
  int index = 0;  // of the load or the store in the epilogue, of the op, of the dtype rounded to
  int out = kNoBuffer;  // buffer written
  std::array<int, 3> in{kNoBuffer, kNoBuffer, kNoBuffer};
  float value = 0;  // fill
  bool operator==(const Instruction&) const = default;
};

// Instructions in the epilogue's order, split by how often they must run: what is one number for
// the whole step, what depends on the column only, and what each element needs of its own.
struct EpilogueProgram {
  int num_buffers = 0;
  std::vector<Instruction> once;         // constants, parameters, scalars
  std::vector<Instruction> per_columns;  // rows such as a bias
  std::vector<Instruction> per_strip;    // stores are here, each as soon as its value is ready
};

// Whether a column reduction is among the stores: rows of a batch must then stay together.
bool reduces_columns(const plan::Epilogue& epilogue);

EpilogueProgram compile(const ir::Graph& graph, const plan::Epilogue& epilogue);

}  // namespace epifuse::cpu
