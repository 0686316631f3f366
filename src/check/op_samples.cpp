// Makes the operands that ops are tried at.
#include "check/op_samples.h"

#include <bit>
#include <cstdint>
#include <limits>
#include <random>

#include "base/float_types.h"

namespace epifuse {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kSpecials[] = {0.0f,
                               1.0f,
                               2.0f,
                               3.0f,
                               0.5f,
                               1.5f,
                               6.0f,
                               20.0f,
                               88.0f,
                               89.0f,
                               1e-8f,
                               0x1p-126f,
                               0x1p-149f,
                               0x1.8p-130f,
                               1e30f,
                               0.1f,
                               0x1.8p127f,
                               0x1p-120f,
                               0x1.fffffep127f,
                               kInfinity};
constexpr float kSmallestUsual = 0x1p-20f, kLargestUsual = 0x1p7f;
constexpr std::uint32_t kSignBit = 0x80000000u;
constexpr std::int32_t kNeighbours = 1 << 14;  // of 1 and -1, on each side
constexpr int kMaxInteger = 8;
constexpr int kShareOfIntegers = 4;  // one part in so many of the usual samples

constexpr std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
constexpr float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// Floats of both signs with magnitudes in [low, high): equal numbers of them in every binade.
class LogSpaced {
 public:
  constexpr LogSpaced(float low, float high) : low_(bits_of(low)), span_(bits_of(high) - low_) {}

  // The i-th of `count`, each drawn from a part of the range of its own.
  float at(std::size_t i, std::size_t count, std::mt19937_64& random) const {
    const std::size_t pairs = (count + 1) / 2;
    const double part = static_cast<double>(span_) / static_cast<double>(pairs);
    const double place = (static_cast<double>(i / 2) + fraction(random)) * part;
    return float_of((low_ + static_cast<std::uint32_t>(place)) | (i % 2 != 0 ? kSignBit : 0));
  }

  float draw(std::mt19937_64& random) const {
    const auto place = static_cast<std::uint32_t>(fraction(random) * static_cast<double>(span_));
    return float_of((low_ + place) | (random() % 2 != 0 ? kSignBit : 0));
  }

 private:
  static double fraction(std::mt19937_64& random) {
    return static_cast<double>(random() >> 11) * 0x1p-53;
  }
  std::uint32_t low_, span_;
};

constexpr LogSpaced kUsual(kSmallestUsual, kLargestUsual);
constexpr LogSpaced kWhole(0.0f, kInfinity);

OpSamples unary_samples(std::size_t num_usual) {
  std::mt19937_64 random(1);
  OpSamples samples;
  std::vector<float>& x = samples.operands[0];
  for (std::uint32_t bits = 0; bits <= 0xffffu; ++bits) {
    x.push_back(bf16_to_float(static_cast<std::uint16_t>(bits)));
  }
  samples.usual_begin = x.size();
  for (std::size_t i = 0; i < num_usual; ++i) x.push_back(kUsual.at(i, num_usual, random));
  samples.usual_end = x.size();
  for (std::size_t i = 0; i < num_usual / 2; ++i) x.push_back(kWhole.at(i, num_usual / 2, random));
  for (const float centre : {1.0f, -1.0f}) {
    for (std::int32_t step = -kNeighbours; step <= kNeighbours; ++step) {
      x.push_back(float_of(bits_of(centre) + static_cast<std::uint32_t>(step)));
    }
  }
  return samples;
}

std::vector<float> signed_specials() {
  std::vector<float> values{std::numeric_limits<float>::quiet_NaN()};
  for (const float x : kSpecials) {
    values.push_back(x);
    values.push_back(-x);
  }
  return values;
}

// Every combination, the first operand fastest.
void add_specials(OpSamples& samples, int arity) {
  const std::vector<float> values = signed_specials();
  std::size_t count = 1;
  for (int i = 0; i < arity; ++i) count *= values.size();
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t rest = i;
    for (int operand = 0; operand < arity; ++operand) {
      samples.operands[static_cast<std::size_t>(operand)].push_back(values[rest % values.size()]);
      rest /= values.size();
    }
  }
}

OpSamples tuple_samples(int arity, std::size_t num_usual) {
  std::mt19937_64 random(2);
  OpSamples samples;
  add_specials(samples, arity);
  const auto add = [&](std::size_t count, auto first, auto later) {
    for (std::size_t i = 0; i < count; ++i) {
      samples.operands[0].push_back(first());
      for (int operand = 1; operand < arity; ++operand) {
        samples.operands[static_cast<std::size_t>(operand)].push_back(later());
      }
    }
  };
  const auto usual = [&] { return kUsual.draw(random); };
  const auto whole = [&] { return kWhole.draw(random); };
  const auto integer = [&] {
    return static_cast<float>(static_cast<int>(random() % (2 * kMaxInteger + 1)) - kMaxInteger);
  };
  samples.usual_begin = samples.size();
  add(num_usual, usual, usual);
  samples.usual_end = samples.size();
  add(num_usual / 2, whole, whole);
  add(num_usual / kShareOfIntegers, usual, integer);
  return samples;
}

}  // namespace

OpSamples op_samples(int arity, std::size_t num_usual) {
  return arity == 1 ? unary_samples(num_usual) : tuple_samples(arity, num_usual);
}

}  // namespace epifuse
