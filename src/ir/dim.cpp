// Symbolic sizes: polynomials in a normal form.
#include "epifuse/dim.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "epifuse/error.h"
#include "ir/graph.h"

namespace epifuse {
namespace {

// Far beyond what a shape needs; they keep hostile expressions from growing without bound.
constexpr std::size_t kMaxTerms = 64;
constexpr std::size_t kMaxDegree = 16;

using Symbols = std::vector<std::string>;

// Higher degrees first, then by name: a monomial order, so `divide` may divide leading terms.
bool comes_before(const Symbols& a, const Symbols& b) {
  return a.size() != b.size() ? a.size() > b.size() : a < b;
}

[[noreturn]] void fail_overflow() {
  throw GraphError("a size expression overflows 64-bit integers");
}

std::int64_t checked_product(std::int64_t a, std::int64_t b) {
  std::int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) fail_overflow();
  return product;
}

std::int64_t checked_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) fail_overflow();
  return sum;
}

// "2*M*N", without a sign.
std::string term_text(const Symbols& symbols, std::int64_t factor) {
  const std::uint64_t magnitude =
      factor < 0 ? -static_cast<std::uint64_t>(factor) : static_cast<std::uint64_t>(factor);
  if (symbols.empty()) return fmt::format("{}", magnitude);
  std::string text = magnitude == 1 ? "" : fmt::format("{}*", magnitude);
  for (const std::string& symbol : symbols) {
    if (&symbol != &symbols.front()) text += '*';
    text += symbol;
  }
  return text;
}

}  // namespace

Dim::Dim(std::int64_t constant) {
  if (constant != 0) terms_.push_back({{}, constant});
}

Dim::Dim(std::string_view symbol) {
  if (!ir::is_identifier(symbol)) {
    throw ArgumentError(fmt::format("a size symbol must be an identifier, got \"{}\"", symbol));
  }
  terms_.push_back({{std::string(symbol)}, 1});
}

void Dim::add(Term term) {
  if (term.factor == 0) return;
  const auto place = std::lower_bound(
      terms_.begin(), terms_.end(), term,
      [](const Term& a, const Term& b) { return comes_before(a.symbols, b.symbols); });
  if (place == terms_.end() || place->symbols != term.symbols) {
    if (terms_.size() == kMaxTerms || term.symbols.size() > kMaxDegree) {
      throw GraphError(fmt::format("a size expression has more than {} terms or {} factors",
                                   kMaxTerms, kMaxDegree));
    }
    terms_.insert(place, std::move(term));
    return;
  }
  place->factor = checked_sum(place->factor, term.factor);
  if (place->factor == 0) terms_.erase(place);
}

std::optional<std::int64_t> Dim::constant() const {
  if (terms_.empty()) return 0;
  if (terms_.size() == 1 && terms_[0].symbols.empty()) return terms_[0].factor;
  return std::nullopt;
}

std::int64_t Dim::constant_term() const {
  const bool has_one = !terms_.empty() && terms_.back().symbols.empty();
  return has_one ? terms_.back().factor : 0;
}

std::optional<std::string> Dim::symbol() const {
  const bool bare = terms_.size() == 1 && terms_[0].factor == 1 && terms_[0].symbols.size() == 1;
  return bare ? std::optional(terms_[0].symbols[0]) : std::nullopt;
}

std::vector<std::string> Dim::symbols() const {
  std::set<std::string> names;
  for (const Term& term : terms_) names.insert(term.symbols.begin(), term.symbols.end());
  return {names.begin(), names.end()};
}

std::int64_t Dim::eval(const Sizes& sizes) const {
  std::int64_t sum = 0;
  for (const Term& term : terms_) {
    std::int64_t product = term.factor;
    bool overflows = false;
    for (const std::string& symbol : term.symbols) {
      const auto size = sizes.find(symbol);
      if (size == sizes.end()) throw ArgumentError(fmt::format("size {} has no value", symbol));
      overflows |= __builtin_mul_overflow(product, size->second, &product);
    }
    overflows |= __builtin_add_overflow(sum, product, &sum);
    if (overflows) throw ArgumentError(fmt::format("size {} overflows 64-bit integers", str()));
  }
  return sum;
}

std::optional<Dim> Dim::divide(const Dim& divisor) const {
  if (divisor.terms_.empty()) return std::nullopt;
  const Term& lead = divisor.terms_.front();
  Dim rest = *this, quotient;
  while (!rest.terms_.empty()) {
    const Term& top = rest.terms_.front();
    Term term{{}, 0};
    std::set_difference(top.symbols.begin(), top.symbols.end(), lead.symbols.begin(),
                        lead.symbols.end(), std::back_inserter(term.symbols));
    if (term.symbols.size() + lead.symbols.size() != top.symbols.size()) return std::nullopt;
    if (lead.factor == -1) {
      term.factor = checked_product(top.factor, -1);  // INT64_MIN / -1 would trap
    } else {
      if (top.factor % lead.factor != 0) return std::nullopt;
      term.factor = top.factor / lead.factor;
    }
    Dim part;
    part.add(term);
    rest = rest - part * divisor;
    quotient.add(std::move(term));
  }
  return quotient;
}

std::string Dim::str() const {
  if (terms_.empty()) return "0";
  // Terms with a plus first, so that a minus leads only where there is no plus at all.
  std::string text;
  for (const Term& term : terms_) {
    if (term.factor <= 0) continue;
    if (!text.empty()) text += '+';
    text += term_text(term.symbols, term.factor);
  }
  for (const Term& term : terms_) {
    if (term.factor >= 0) continue;
    text += '-';
    text += term_text(term.symbols, term.factor);
  }
  return text;
}

Dim operator+(const Dim& a, const Dim& b) {
  Dim sum = a;
  for (const Dim::Term& term : b.terms_) sum.add(term);
  return sum;
}

Dim operator-(const Dim& a, const Dim& b) { return a + b * Dim(-1); }

Dim operator*(const Dim& a, const Dim& b) {
  Dim product;
  for (const Dim::Term& x : a.terms_) {
    for (const Dim::Term& y : b.terms_) {
      Dim::Term term{{}, checked_product(x.factor, y.factor)};
      std::merge(x.symbols.begin(), x.symbols.end(), y.symbols.begin(), y.symbols.end(),
                 std::back_inserter(term.symbols));
      product.add(std::move(term));
    }
  }
  return product;
}

}  // namespace epifuse
