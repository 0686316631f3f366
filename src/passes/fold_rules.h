// The rows of fold_rules.def.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "passes/fold_patterns.h"

namespace epifuse::passes {

// Where both sides of a rule agree; see fold_rules.def.
enum class FoldWhere : std::uint8_t { anywhere, left_finite };

struct FoldRule {
  std::string_view to;
  FoldWhere where;
  std::string_view from;
};

std::span<const FoldRule> fold_rules();

// A rule in one of its spellings.
struct SpelledRule {
  Pattern from, to;
  FoldWhere where;
};

// All rules in all spellings, in the order of the table.
std::vector<SpelledRule> spelled_rules();

}  // namespace epifuse::passes
