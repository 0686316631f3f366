// Names of the levels of numerics.
#include "epifuse/program.h"

namespace epifuse {

std::string_view name(Numerics numerics) {
  switch (numerics) {
    case Numerics::fast: return "fast";
    case Numerics::exact: return "exact";
    case Numerics::approx: return "approx";
  }
  return "";
}

}  // namespace epifuse
