// The words for when kernels are measured, and which of them holds.
#pragma once

#include <optional>
#include <string_view>

#include "epifuse/program.h"

namespace epifuse {

inline constexpr std::string_view kTuneModes = "off, compile, first-use or full";

std::optional<Tune> find_tune(std::string_view word);  // empty for no such word

// What was asked for, else what the setting `tune` says, else off. Throws ArgumentError where the
// setting is none of the words.
Tune tune_mode(std::optional<Tune> asked);

}  // namespace epifuse
