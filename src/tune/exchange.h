// Measured choices as one text, to take from machine to machine.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tune/store.h"

namespace epifuse::tune {

// All choices of a store that are whole, in the order of their keys: JSON, one a line.
std::string export_choices(const TuneStore& store);

struct Imported {
  std::size_t added = 0, known = 0;
  std::size_t differ = 0;  // of the known ones: another choice stays than the text has
  std::size_t lost = 0;    // that the store could not keep
};
// Keeps the choices that such a text has beside those of the store, of which each stays. Nothing is
// kept of a text that is not whole. Throws ArgumentError: what is expected, what came.
Imported import_choices(std::string_view text, const TuneStore& store);

}  // namespace epifuse::tune
