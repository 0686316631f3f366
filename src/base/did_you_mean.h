// Names that were perhaps meant by a word that is none.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace epifuse {

// What `word` was perhaps meant to be, of `choices`: the one that differs by case alone; else those
// that it is a part of, shortest first and at most four; else the one fewest edits away. Empty when
// none is close.
std::vector<std::string_view> near_names(std::string_view word,
                                         std::span<const std::string_view> choices);

// The same as text to append: " (did you mean 'x' or 'y'?)", or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> choices);

}  // namespace epifuse
