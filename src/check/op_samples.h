// Operands to try an op at: every bf16 number, floats dense where ops turn, and the whole range.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace epifuse {

struct OpSamples {
  std::array<std::vector<float>, 3> operands;  // of equal length; those past the arity are empty
  std::size_t usual_begin = 0, usual_end = 0;  // numbers of the usual size, 2^-20 to 2^7

  std::size_t size() const { return operands[0].size(); }
};

// The samples of an op of `arity` operands, always the same ones. With one operand: all 65536 bf16
// values (NaN, infinities and subnormals among them), `num_usual` floats log-spaced over both signs
// of the usual sizes, half as many over all of float32, and the 2^14 floats on each side of 1 and
// -1. With more: every combination of special values, random ones of the usual sizes, of all of
// float32, and with small integers behind the first.
OpSamples op_samples(int arity, std::size_t num_usual);

}  // namespace epifuse
