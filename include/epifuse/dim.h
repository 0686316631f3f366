// Symbolic sizes: `M`, `768`, `B*S`, `M+1`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace epifuse {

/// Values of size symbols, e.g. {"M": 4096}.
using Sizes = std::map<std::string, std::int64_t, std::less<>>;

/// A size or a stride: a polynomial over named symbols with integer coefficients, in normal form,
/// so that two dims are equal for all values of their symbols exactly when `==` holds.
class Dim {
 public:
  Dim(std::int64_t constant = 0);  // NOLINT: implicit, so that {M, 768} is a shape
  /// A named size. The name must be an identifier ([A-Za-z_][A-Za-z0-9_]*), else ArgumentError.
  explicit Dim(std::string_view symbol);

  /// The value when there is no symbol in it.
  std::optional<std::int64_t> constant() const;
  bool is(std::int64_t value) const { return constant() == value; }
  /// Its term without symbols; 0 if there is none.
  std::int64_t constant_term() const;
  /// The name when this is one bare symbol.
  std::optional<std::string> symbol() const;
  /// Names of all symbols in it, sorted.
  std::vector<std::string> symbols() const;
  /// Value for the given sizes. ArgumentError when a symbol has no value or it overflows int64.
  std::int64_t eval(const Sizes& sizes) const;
  /// Exact quotient when `divisor` divides every coefficient and symbol of each term.
  std::optional<Dim> divide(const Dim& divisor) const;
  /// Text as in `.epi`: "M", "768", "2*M+1", "B*S".
  std::string str() const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  bool operator==(const Dim&) const = default;

 private:
  struct Term {
    std::vector<std::string> symbols;  // sorted, with repeats for powers
    std::int64_t factor;               // never 0
    bool operator==(const Term&) const = default;
  };
  std::vector<Term> terms_;  // sorted by symbols, no two alike; empty is 0
  void add(Term term);
};

}  // namespace epifuse
