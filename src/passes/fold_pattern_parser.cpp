// Reads patterns, and spells out the forms in them.
#include <cctype>
#include <map>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "passes/fold_patterns.h"

namespace epifuse::passes {
namespace {

// What each parameter of a form stands for: a pattern, itself already spelled out.
using Arguments = std::map<char, Pattern>;

// Reads one pattern. A form in it gives as many patterns as there are spellings of the form times
// those of its arguments.
class PatternParser {
 public:
  PatternParser(std::string_view text, std::span<const FoldForm> forms, const Arguments& arguments)
      : whole_(text), rest_(text), forms_(forms), arguments_(arguments) {}

  std::vector<Pattern> parse_whole() {
    std::vector<Pattern> patterns = parse();
    check(rest_.empty(), "text after the pattern");
    return patterns;
  }

 private:
  void check(bool holds, std::string_view problem) const {
    EPIFUSE_CHECK(holds, "fold_rules.def: " + std::string(problem) + " in " + std::string(whole_));
  }

  void skip_spaces() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }

  std::string_view take_word() {
    skip_spaces();
    const auto is_part = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
    };
    std::size_t length = 0;
    while (length < rest_.size() && is_part(rest_[length])) ++length;
    const std::string_view word = rest_.substr(0, length);
    rest_.remove_prefix(length);
    skip_spaces();
    return word;
  }

  bool accept(char sign) {
    if (rest_.empty() || rest_.front() != sign) return false;
    rest_.remove_prefix(1);
    return true;
  }

  // The spellings of each operand, in order.
  std::vector<std::vector<Pattern>> parse_args() {
    check(accept('('), "no '(' after a name");
    std::vector<std::vector<Pattern>> args;
    do {
      args.push_back(parse());
    } while (accept(','));
    check(accept(')'), "no ')'");
    skip_spaces();
    return args;
  }

  // Every choice of one spelling for each operand.
  static std::vector<std::vector<Pattern>> combine(const std::vector<std::vector<Pattern>>& args) {
    std::vector<std::vector<Pattern>> combined = {{}};
    for (const std::vector<Pattern>& spellings : args) {
      std::vector<std::vector<Pattern>> longer;
      for (const std::vector<Pattern>& start : combined) {
        for (const Pattern& spelling : spellings) {
          longer.push_back(start);
          longer.back().push_back(spelling);
        }
      }
      combined = std::move(longer);
    }
    return combined;
  }

  std::vector<Pattern> parse() {
    const std::string_view word = take_word();
    if (const std::optional<double> number = parse_number(word)) {
      return {{.kind = PatternKind::number, .number = *number}};
    }
    if (word.size() == 1) return {parse_variable(word.front())};
    const std::vector<std::vector<Pattern>> args = combine(parse_args());
    if (const std::optional<ir::Op> op = ir::op_from_name(word)) return apply_op(*op, args);
    return spell_form(word, args);
  }

  Pattern parse_variable(char letter) const {
    check(letter >= 'a' && letter <= 'z', "a variable that is no small letter");
    if (const auto found = arguments_.find(letter); found != arguments_.end()) return found->second;
    check(arguments_.empty(), "a variable that is no parameter of the form");
    return {.kind = PatternKind::variable, .variable = letter};
  }

  std::vector<Pattern> apply_op(ir::Op op, const std::vector<std::vector<Pattern>>& args) const {
    check(ir::is_elementwise(op) && op != ir::Op::cast, "an op that is not arithmetic");
    std::vector<Pattern> patterns;
    for (const std::vector<Pattern>& operands : args) {
      check(operands.size() == static_cast<std::size_t>(ir::info(op).arity), "a wrong arity");
      patterns.push_back({.kind = PatternKind::op, .op = op, .args = operands});
    }
    return patterns;
  }

  // A form's spelling may use the forms defined before it.
  std::vector<Pattern> spell_form(std::string_view name,
                                  const std::vector<std::vector<Pattern>>& args) const {
    std::vector<Pattern> patterns;
    for (std::size_t i = 0; i < forms_.size(); ++i) {
      const std::string_view head = forms_[i].head;
      if (head.substr(0, head.find('(')) != name) continue;
      for (const std::vector<Pattern>& operands : args) {
        const Arguments arguments = name_arguments(head.substr(name.size()), operands);
        PatternParser spelling(forms_[i].spelling, forms_.first(i), arguments);
        for (Pattern& pattern : spelling.parse_whole()) patterns.push_back(std::move(pattern));
      }
    }
    check(!patterns.empty(), "a name that is neither op nor form");
    return patterns;
  }

  // "(x, a)" and two patterns: what x and a stand for.
  Arguments name_arguments(std::string_view parameters, const std::vector<Pattern>& values) const {
    Arguments arguments;
    std::size_t num_named = 0;
    for (const char c : parameters) {
      if (c < 'a' || c > 'z') continue;
      check(num_named < values.size(), "too few arguments of a form");
      arguments[c] = values[num_named++];
    }
    check(num_named == values.size(), "too many arguments of a form");
    return arguments;
  }

  std::string_view whole_, rest_;
  std::span<const FoldForm> forms_;
  const Arguments& arguments_;
};

}  // namespace

std::vector<Pattern> parse_patterns(std::string_view text, std::span<const FoldForm> forms) {
  const Arguments none;
  return PatternParser(text, forms, none).parse_whole();
}

}  // namespace epifuse::passes
