// The words of the `.epi` language, which no value, size or graph may be called.
#pragma once

#include <string_view>
#include <vector>

namespace epifuse::ir {

// All of them: graph, return, strides and the like, dtypes, and ops (but `input`, which the text
// never spells).
std::vector<std::string_view> reserved_words();
bool is_reserved_word(std::string_view word);

}  // namespace epifuse::ir
