// The words of the `.epi` language, which no value, size or graph may be called.
#pragma once

#include <string_view>

namespace epifuse::ir {

// graph, return, strides and the like, dtypes, and ops (but `input`, which the text never spells).
bool is_reserved_word(std::string_view word);

}  // namespace epifuse::ir
