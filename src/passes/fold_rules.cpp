// The rows of fold_rules.def as patterns.
#include "passes/fold_rules.h"

#include <utility>

#include "base/check.h"

namespace epifuse::passes {
namespace {

constexpr FoldForm kForms[] = {
#define EPIFUSE_FOLD_FORM(head, spelling) {head, spelling},
#define EPIFUSE_FOLD_RULE(to, where, from)
#include "passes/fold_rules.def"
#undef EPIFUSE_FOLD_FORM
#undef EPIFUSE_FOLD_RULE
};

constexpr FoldRule kRules[] = {
#define EPIFUSE_FOLD_FORM(head, spelling)
#define EPIFUSE_FOLD_RULE(to, where, from) {to, FoldWhere::where, from},
#include "passes/fold_rules.def"
#undef EPIFUSE_FOLD_FORM
#undef EPIFUSE_FOLD_RULE
};

}  // namespace

std::span<const FoldRule> fold_rules() { return kRules; }

std::vector<SpelledRule> spelled_rules() {
  std::vector<SpelledRule> spelled;
  for (const FoldRule& rule : kRules) {
    const std::vector<Pattern> to = parse_patterns(rule.to, {});
    EPIFUSE_CHECK(to.size() == 1, "fold_rules.def: a rule becomes one thing");
    for (Pattern& from : parse_patterns(rule.from, kForms)) {
      spelled.push_back({std::move(from), to.front(), rule.where});
    }
  }
  return spelled;
}

}  // namespace epifuse::passes
