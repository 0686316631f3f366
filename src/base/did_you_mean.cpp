#include "base/did_you_mean.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace epifuse {
namespace {

constexpr std::size_t kMaxWordLength = 40;
constexpr std::size_t kFewestOfPart = 3;  // letters that tell something as a part of a name
constexpr std::size_t kMostNames = 4;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return lower(c); });
  return out;
}

// Insertions, deletions and substitutions from `a` to `b` (Levenshtein distance).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({diagonal + 1, row[j] + 1, substituted});
    }
  }
  return row.back();
}

// Names that hold the whole word between underscores or ends: gelu is a part of gelu_erf.
std::vector<std::string_view> names_with_part(const std::string& word,
                                              std::span<const std::string_view> choices) {
  std::vector<std::string_view> found;
  if (word.size() < kFewestOfPart) return found;
  for (const std::string_view choice : choices) {
    if (("_" + lower(choice) + "_").find("_" + word + "_") != std::string::npos) {
      found.push_back(choice);
    }
  }
  std::ranges::stable_sort(found, {}, &std::string_view::size);
  found.resize(std::min(found.size(), kMostNames));
  return found;
}

}  // namespace

std::vector<std::string_view> near_names(std::string_view given,
                                         std::span<const std::string_view> choices) {
  if (given.empty() || given.size() > kMaxWordLength) return {};
  const std::string word = lower(given);
  for (const std::string_view choice : choices) {
    if (word.size() == choice.size() && word == lower(choice)) return {choice};
  }
  if (auto found = names_with_part(word, choices); !found.empty()) return found;
  std::size_t best = word.size() <= 3 ? 2 : 3;  // one more than the errors forgiven
  std::string_view guess;
  for (const std::string_view choice : choices) {
    const std::size_t shorter = std::min(word.size(), choice.size());
    const std::size_t longer = std::max(word.size(), choice.size());
    if (longer - shorter >= best) continue;
    const std::size_t distance = edit_distance(word, lower(choice));
    if (distance < std::min(best, word.size())) {
      best = distance;
      guess = choice;
    }
  }
  if (guess.empty()) return {};
  return {guess};
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> choices) {
  const std::vector<std::string_view> names = near_names(word, choices);
  if (names.empty()) return "";
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string_view joint = i == 0 ? "" : i + 1 == names.size() ? " or " : ", ";
    text += fmt::format("{}'{}'", joint, names[i]);
  }
  return fmt::format(" (did you mean {}?)", text);
}

}  // namespace epifuse
