// The words for when kernels are measured, and which of them holds.
#include "base/tune_mode.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "base/settings.h"
#include "epifuse/error.h"

namespace epifuse {

std::string_view name(Tune tune) {
  switch (tune) {
    case Tune::off: return "off";
    case Tune::compile: return "compile";
    case Tune::first_use: return "first-use";
    case Tune::full: return "full";
  }
  return "";
}

std::optional<Tune> find_tune(std::string_view word) {
  for (const Tune tune : {Tune::off, Tune::compile, Tune::first_use, Tune::full}) {
    if (word == name(tune)) return tune;
  }
  return std::nullopt;
}

Tune tune_mode(std::optional<Tune> asked) {
  if (asked) return *asked;
  const std::string word = Settings::read().tune;
  if (word.empty()) return Tune::off;
  const std::optional<Tune> found = find_tune(word);
  if (!found) {
    throw ArgumentError(
        fmt::format("EPIFUSE_TUNE: expected {}, got '{}'", kTuneModes, printable(word)));
  }
  return *found;
}

}  // namespace epifuse
